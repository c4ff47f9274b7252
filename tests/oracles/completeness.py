"""Whether a request is complete, in plain Python, from the words of `stitch.closing`."""

from __future__ import annotations

from collections.abc import Sequence

from oracles.strategies import Row

from schemas.events import SPAN_KIND_BASE
from schemas.events import EventKind as K


def is_complete(rows: Sequence[Row]) -> bool:
    """One request, of spans, of records, or of both."""
    spans = [row for row in rows if row["kind"] >= SPAN_KIND_BASE]
    records = [row for row in rows if row["kind"] < SPAN_KIND_BASE]
    return (not spans or _spans_are(spans)) and (not records or _records_are(records))


def _declared(span: Row) -> list[str]:
    return [*(span.get("parents") or []), *(span.get("follows") or [])]


def _spans_are(spans: list[Row]) -> bool:
    ids = {span["id"] for span in spans}
    timed = {s["id"] for s in spans if s.get("ts_ns") is not None and s.get("end_ns") is not None}
    received = {name for s in spans if s["kind"] == K.SPAN_CONSUMER for name in _declared(s)}
    return (
        any(not _declared(span) for span in spans)
        and all(name in ids for span in spans for name in _declared(span))
        and ids == timed
        and all(span["id"] in received for span in spans if span["kind"] == K.SPAN_PRODUCER)
    )


def _records_are(records: list[Row]) -> bool:
    present, over, expected, ids, parents = set(), set(), set(), set(), set()
    for record in records:
        crumb = record.get("breadcrumb")
        if crumb is None:
            return False
        present.add(crumb)
        if record["kind"] == K.END:
            over.add(crumb)
        others = {link for link in record.get("links") or [] if link != crumb}
        if record["kind"] == K.JOIN:
            over |= others
        if record["kind"] in (K.JOIN, K.SPLIT):
            expected |= others
        if record.get("id") is not None:
            ids.add(record["id"])
        parents |= set(record.get("parents") or [])
    ended = any(record["kind"] == K.END for record in records)
    return ended and present <= over and expected <= present and parents <= ids
