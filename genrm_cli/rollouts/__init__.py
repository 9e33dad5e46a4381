"""Parse input lines as rollouts: formats, groups, and views for a judge.

Readers raise `UnreadableRecordError` for a value of another shape, and where it is unknown which
value is meant."""
