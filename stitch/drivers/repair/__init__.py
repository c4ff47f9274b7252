"""Repair a lake: rebuild windows that have late events, and restore damaged log segments from Kafka."""
