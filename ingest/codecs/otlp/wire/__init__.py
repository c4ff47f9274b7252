"""Decode OTLP protobuf in one pass over its bytes with a native library, which is optional; see
RATIONALE.md."""
