"""Ingestion: codecs, files, Kafka, an OTLP receiver. Converts input to Arrow event batches and dead
letters."""
