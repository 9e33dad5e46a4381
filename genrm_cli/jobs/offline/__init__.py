"""Requests and replies in files, and batch APIs: judging without calls."""
