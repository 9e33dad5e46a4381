"""The wire shapes that the server speaks, one module each with its routes.

What cannot be read raises `UnreadableRecordError`, or `BadLineError` if it is not a JSON object.
"""
