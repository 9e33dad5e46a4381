"""HTTP for judges: one small interface, and the two libraries behind it."""
