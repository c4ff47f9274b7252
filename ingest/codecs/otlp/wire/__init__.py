"""OTLP protobuf in one pass over its bytes, by a native library that may be missing; see RATIONALE.md."""
