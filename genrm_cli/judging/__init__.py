"""Ask a judge to compare two responses, and read its verdict.

Settings, files and profiles that cannot be used raise `UsageError`, a judge that cannot be used
`JudgeError`."""
