"""Kafka as a live source: who owns which partitions, what is in them, and what keeps us from reading on."""
