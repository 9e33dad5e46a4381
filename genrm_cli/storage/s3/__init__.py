"""S3 objects. boto3 is slow to import, so these modules are imported only when an S3 URI is
used.
"""
