"""Codecs of the input formats (`ingest.formats` is the table), a folder a family; `spans` and `values` are
shared.

A codec makes one event batch of payloads, and dead letters of what it cannot read: it never raises on input.
`otlp` and `native` also encode, for exports.
"""
