"""Zipkin v2: lists of spans, JSON and protobuf."""
