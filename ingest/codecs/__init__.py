"""Codecs of the input formats (`ingest.formats` is the table), one folder per family; all share `spans` and
`values`.

A codec makes one event batch of payloads, and dead letters of unreadable items: it never raises on input.
`otlp` and `native` also encode, for exports.
"""
