"""Break up what could pass for a verdict or a marker in texts that a judge sees."""
