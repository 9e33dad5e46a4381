"""Labelled pairs: what their lines mean, and an input of them."""
