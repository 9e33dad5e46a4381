"""Turn stored RL rollouts into rewards by asking a generative reward model to compare them in pairs."""

__version__ = "0.1.0"
