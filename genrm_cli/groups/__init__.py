"""The core: one group of rollouts in, its rewards out. No files, no terminal, no global state."""
