"""Formats of NeMo Gym and NeMo RL."""
