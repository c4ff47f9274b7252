"""Ingestion: codecs, files, Kafka, a receiver of OTLP. Makes Arrow event batches of bytes, and dead letters."""
