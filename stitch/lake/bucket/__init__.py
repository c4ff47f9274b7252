"""Store a lake in an S3-compatible bucket: address, credentials, failures, and the store itself."""
