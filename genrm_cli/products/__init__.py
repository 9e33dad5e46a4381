"""The optional products: each folder is one, built on the core, and none imports another."""
