"""The learning curve of the guide: a tiny policy trained with GRPO on rewards of several kinds."""
