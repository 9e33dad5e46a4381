"""Which rows to make: pairs, their balance, their order, their split."""
