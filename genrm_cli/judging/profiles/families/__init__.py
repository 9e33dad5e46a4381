"""The built-in judge families: TOML files in the custom profile format, and Python where parsing
needs it.
"""
