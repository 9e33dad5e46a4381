"""The built-in kinds of reward components, one module each: its settings, and how its values are
computed.
"""
