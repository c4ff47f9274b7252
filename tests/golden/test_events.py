"""What each format's codec makes of a small example: the whole event batch, one event a line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import EVENT_SCHEMA, with_text_ids

CASES = [
    ("jaeger-json", "jaeger/trace_success.json"),
    ("jaeger-ui", "jaeger/multi.json"),
    ("otlp-json", "otlp/trace.json"),
    ("zipkin", "zipkin/skew.json.gz"),
    ("zipkin", "zipkin/yelp.json.gz"),
    ("zipkin", "zipkin/messaging-kafka.json.gz"),
    ("xtrace", "xtrace/gc.json.gz"),
]


@pytest.mark.parametrize(("format_", "name"), CASES)
def test_events(golden: Callable[[str, str], None], shared_data: Path, format_: str, name: str) -> None:
    payload = (shared_data / name).read_bytes()
    if name.endswith(".gz"):
        payload = gzip.decompress(payload)
    decoded = codec_for(format_).decode([payload], DecodeConfig())
    assert decoded.rejects == []
    assert decoded.events.schema.equals(EVENT_SCHEMA)
    lines = [
        json.dumps({key: value for key, value in row.items() if value is not None}, ensure_ascii=False)
        for row in with_text_ids(decoded.events).to_pylist()
    ]
    stem = Path(name).name.split(".")[0]
    golden(f"events-{format_}-{stem}.jsonl", "".join(f"{line}\n" for line in lines))
