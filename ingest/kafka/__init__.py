"""Read Kafka live: ownership of partitions, contents of messages, and diagnosis of failures."""
