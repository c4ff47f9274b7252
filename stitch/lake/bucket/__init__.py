"""Keep a lake in an S3-compatible bucket: where it is, who may, what can go wrong, and the store itself."""
