"""Files in, files out: index the input, decide what is due, lease it, spool, write, batch.

Settings that contradict each other or the inputs raise `UsageError`, unreadable inputs
`InputError`, storage that fails `StorageError`, a judge that cannot be used or has been down for
too long `JudgeError`."""
