"""Ingestion: codecs, files, Kafka, an OTLP receiver. Produces Arrow event batches and dead letters."""
