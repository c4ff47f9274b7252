"""Ingestion: codecs, files, Kafka, a receiver of OTLP. Makes Arrow event batches and dead letters."""
