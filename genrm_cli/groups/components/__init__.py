"""The components of a reward beside the verdicts: computed locally or graded by a judge."""
