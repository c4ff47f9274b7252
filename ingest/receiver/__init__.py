"""OTLP receiver: requests over HTTP and gRPC, made durable in a spool that live ingestion reads."""
