"""Jaeger: UI exports, JSON spans, protobuf spans."""
