"""The journal of each output: where it lies, its copy on S3, and those of shards."""
