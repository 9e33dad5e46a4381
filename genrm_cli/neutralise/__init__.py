"""What a shown text must not hold, and how it is broken up."""
