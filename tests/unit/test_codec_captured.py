"""Messages that a real Collector wrote to Kafka, in every encoding: each decodes to what was sent.

What an encoding cannot carry is in the table of docs/internals/formats.md, and here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from oracles.captured import FILES, KINDS, messages, sent_spans, span_ids

from ingest.files import FileSource, decode_file
from ingest.formats import codec_for, format_of
from schemas.config import DecodeConfig
from schemas.events import EventKind, concat_events, with_text_ids

CONFIG = DecodeConfig()
US = 1_000


@pytest.fixture(scope="module")
def captured(shared_data: Path) -> Path:
    return shared_data / "kafka-captured"


def decode(captured: Path, name: str) -> list[dict[str, Any]]:
    decoded = codec_for(FILES[name]).decode(messages(captured, name), CONFIG)
    assert not decoded.rejects
    rows: list[dict[str, Any]] = with_text_ids(decoded.events).to_pylist()
    return rows


def params(row: dict[str, Any]) -> dict[str, Any]:
    return {p["key"]: p["text"] if p["num"] is None else p["num"] for p in row["params"] or []}


@pytest.mark.parametrize("name", FILES)
def test_every_captured_span_is_what_was_sent(captured: Path, name: str) -> None:
    sent = sent_spans(captured)
    rows = {(row["request_id"], row["id"]): row for row in decode(captured, name)}
    assert rows.keys() == span_ids(captured, name)
    for place, row in rows.items():
        if row["component"] == "telemetrygen":
            assert (row["host"], row["status"]) == ("gen", "ok")
            assert row["kind"] in (EventKind.SPAN_CLIENT, EventKind.SPAN_SERVER)
            assert row["end_ns"] > row["ts_ns"]
            continue
        span = sent[place]
        found, expected = params(row), span.params()
        assert len(found.pop("service.instance.id")) == len("f66ec8ac-2069-4037-9bb9-921c1e6889b0")
        written = span.name
        if name.startswith("zipkin"):
            # Whole microseconds, the time of an event rounded by itself.
            assert abs(row["ts_ns"] - span.start_ns) <= US // 2
            assert abs((row["end_ns"] - row["ts_ns"]) - (span.end_ns - span.start_ns)) <= US
            for event in ("event.cache.miss", "event.exception"):
                if event in expected:
                    assert abs(found.pop(event) - expected.pop(event)) <= US
            # A port without an address has no place in an endpoint.
            expected.pop("net.peer.port", None)
        else:
            assert (row["ts_ns"], row["end_ns"]) == (span.start_ns, span.end_ns)
        if name == "zipkin-json":
            written = span.name.lower()
            if "span.name" in expected:
                expected["span.name"] = written
        assert row["point"] == written.replace(f"/{span.number}", "/{n}")
        assert row["parents"] == (None if span.parent is None else [span.parent])
        assert row["component"] == span.service
        assert row["host"] == f"host-{span.service[:2]}"
        assert row["kind"] == EventKind[KINDS.get(span.name, "SPAN_SERVER")]
        assert row["status"] == ("error" if span.failed else "ok")
        assert row["peer"] == ("cart" if span.name == "call cart" else None)
        assert found == expected
        assert len((row["links"] or []) + (row["follows"] or [])) == (
            span.name.startswith("GET ") or span.name == "queue process"
        )


def test_a_span_captured_twice_is_the_same_in_both_encodings(captured: Path) -> None:
    """Links too, whose ids were not noted when they were sent."""
    exact = [name for name in FILES if not name.startswith("zipkin")]
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    again = 0
    for name in exact:
        for row in decode(captured, name):
            place = row["request_id"], row["id"]
            again += place in seen
            assert seen.setdefault(place, row) == row
    assert again > 5


@pytest.mark.parametrize("name", ["zipkin-json", "zipkin-proto"])
def test_links_written_as_tags_are_links(captured: Path, name: str) -> None:
    written = [
        f"{trace.decode()}/{span.decode()}"
        for value in messages(captured, name)
        for trace, span in re.findall(rb"([0-9a-f]{32})\|([0-9a-f]{16})\|", value)
    ]
    read = [link for row in decode(captured, name) for link in row["links"] or []]
    assert sorted(read) == sorted(written)
    assert bool(read) == (name == "zipkin-proto")


@pytest.mark.parametrize("name", FILES)
def test_captured_messages_in_a_file_are_recognised(captured: Path, name: str, tmp_path: Path) -> None:
    format_ = format_of(FILES[name]).name
    values = messages(captured, name)
    is_text = "json" in name
    frames = [v + b"\n" if is_text else len(v).to_bytes(4, "big") + v for v in values]
    path = tmp_path / "captured"
    for content, kept in ((b"".join(frames), values), (values[0], values[:1])):
        path.write_bytes(content)
        assert next(FileSource(path, None, CONFIG).polls()).format == format_
        events = concat_events([batch.events for batch in decode_file(path, None, CONFIG)])
        assert events.to_pylist() == codec_for(format_).decode(kept, CONFIG).events.to_pylist()


@pytest.mark.parametrize("name", FILES)
def test_a_captured_message_that_is_cut_costs_itself_only(captured: Path, name: str) -> None:
    values = messages(captured, name)
    codec = codec_for(FILES[name])
    whole = codec.decode(values, CONFIG).events
    decoded = codec.decode([values[0][:-1], *values, values[-1][: len(values[-1]) // 2]], CONFIG)
    spans = decoded.events.to_pylist()
    assert [row for row in whole.to_pylist() if row not in spans] == []
    assert {reject.payload for reject in decoded.rejects} <= {0, len(values) + 1}
    assert decoded.rejects
