"""What is in the inputs, and what judges would be shown, without asking any."""
