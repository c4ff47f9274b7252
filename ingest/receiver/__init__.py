"""OTLP receiver: accepts requests over HTTP and gRPC, and makes them durable in a spool, which live ingestion
reads."""
