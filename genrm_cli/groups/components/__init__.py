"""The components of a reward besides the verdicts: computed locally or graded by a judge."""
