"""Formats that many tools share."""
