"""Zipkin v2 JSON lists."""
