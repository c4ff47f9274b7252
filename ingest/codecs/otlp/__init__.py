"""OTLP: protobuf and JSON in, JSON out."""
