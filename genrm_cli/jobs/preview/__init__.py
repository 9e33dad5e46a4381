"""Show what an input holds, and what a run would ask about it, without calling a judge."""
