"""Formats of evaluation harnesses and inference servers."""
