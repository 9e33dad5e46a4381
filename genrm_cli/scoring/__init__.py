"""The use cases: score an input, validate it, compare a few responses. Wires the other packages together."""
