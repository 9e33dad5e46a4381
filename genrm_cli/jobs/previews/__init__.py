"""Previews of the inputs and of the prompts, without calling a judge."""
