"""OTLP: decode protobuf and JSON, encode JSON."""
