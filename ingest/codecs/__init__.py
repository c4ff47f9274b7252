"""Codecs of the input formats (`ingest.formats` is the table), one folder per family; all share `spans` and
`values`.

A codec converts payloads to one event batch, and unreadable items to dead letters: it never raises because of
its input. `otlp` and `native` also encode, for exports.
"""
