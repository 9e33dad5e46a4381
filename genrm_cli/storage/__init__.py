"""Storage: local files, standard streams and S3 objects behind one small interface."""
