"""Ingestion: codecs, files, Kafka, simulator. Converts bytes to Arrow event batches and rejects."""
