"""Storage: local files, standard streams and S3 objects behind one `Store`.

What cannot be read raises `InputError`, what cannot be stored `StorageError`, a name that cannot be
used `UsageError`."""
