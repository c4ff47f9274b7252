"""A topic's format is that of its messages, unless the settings name one."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.captured import FILES, messages

from ingest.content_format import USUAL, ContentFormat
from ingest.formats import AUTO, format_of
from ingest.source import Payloads
from schemas.config import DecodeConfig

GARBAGE = [b"hello", b"\x00\x00\x00\x00\x05\x0a\x01", b'{"a":1}']


def polled(payloads: list[bytes], format_: str = AUTO) -> Payloads:
    return Payloads("t/0", format_, payloads, list(range(len(payloads))), len(payloads))


@pytest.mark.parametrize("name", FILES)
def test_messages_of_a_collector_name_their_format(shared_data: Path, name: str) -> None:
    payloads, right = messages(shared_data / "kafka-captured", name), format_of(FILES[name]).name
    assert ContentFormat(DecodeConfig()).named(polled(payloads)).format == right
    content = ContentFormat(DecodeConfig())
    assert content.named(polled(GARBAGE)).format == USUAL  # dead letters, and nothing is decided
    assert content.named(polled([*GARBAGE, *payloads])).format == right
    assert content.named(polled(GARBAGE)).format == right


def test_a_topic_stays_what_it_was_while_that_gives_events(shared_data: Path) -> None:
    of = {format_of(FILES[name]).name: messages(shared_data / "kafka-captured", name) for name in FILES}
    one, other = of["otlp-proto"], of["otlp-json"]
    content = ContentFormat(DecodeConfig(), before="otlp-json")
    assert content.named(polled([*one, other[0]])).format == "otlp-json"
    content = ContentFormat(DecodeConfig(), before="otlp-json")
    assert content.named(polled(GARBAGE)).format == "otlp-json"
    assert content.named(polled(one)).format == "otlp-proto"


def test_a_format_that_is_named_is_kept(shared_data: Path) -> None:
    payloads = messages(shared_data / "kafka-captured", next(iter(FILES)))
    for format_ in ("native", None):
        given = Payloads("t/0", format_, payloads, list(range(len(payloads))), len(payloads))
        assert ContentFormat(DecodeConfig()).named(given) is given
