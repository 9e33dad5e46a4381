"""What is optional: each folder is one product around the core, and none imports another."""
