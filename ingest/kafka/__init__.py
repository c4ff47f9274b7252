"""Kafka as a live source: partition ownership, message contents, and diagnosis of failures."""
