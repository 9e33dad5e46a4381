"""Formats of NVIDIA's trainers."""
