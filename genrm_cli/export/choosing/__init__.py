"""Selection of rows: pairs, their balance, order and split."""
