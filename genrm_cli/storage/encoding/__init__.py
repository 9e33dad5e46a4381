"""Compression, records and the containers that hold them, independently of where the bytes are
stored.
"""
