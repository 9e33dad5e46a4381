"""Parsing shared by formats: messages, response items and fields of a record; and the definition of
a format.
"""
