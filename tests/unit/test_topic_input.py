"""Names of topics as an input, and what is said of offsets that a log has not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ingest.kafka import topic_input
from ingest.kafka.topic_input import parse_topic_input
from ingest.source import StreamId
from schemas.errors import FlowdiffError, InputError

LOG = (0, 100)
CUT = (6, 100)
EMPTY = (6, 6)


def range_in(log: tuple[int, int], rest: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    there = SimpleNamespace(first=log[0], end=log[1])
    monkeypatch.setattr(topic_input, "range_of", lambda *_: there)
    asked = parse_topic_input(f"kafka://h:1/t/0{rest}", now_ns=0)
    consumer: Any = None
    return topic_input._range(consumer, StreamId("t", 0), asked, 1_000)


@pytest.mark.parametrize(
    ("log", "rest", "message", "remedy"),
    [
        (LOG, "@50:2000", "t/0 has offsets 0 to 99, not all of 50 to 1999.", "What it has of them: @50:100."),
        (CUT, "@0:9", "t/0 has offsets 6 to 99, not all of 0 to 8.", "What it has of them: @6:9."),
        (LOG, "@1000:2000", "t/0 has offsets 0 to 99, not all of 1000 to 1999.", ""),
        (CUT, "@0:6", "t/0 has offsets 6 to 99, not all of 0 to 5.", ""),
        (EMPTY, "@0:9", "t/0 has no message; 0 to 8 were asked for.", ""),
    ],
)
def test_offsets_that_are_not_there_are_refused_with_those_that_are(
    log: tuple[int, int], rest: str, message: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError) as error:
        range_in(log, rest, monkeypatch)
    assert (error.value.message, error.value.remedy) == (message, remedy)


@pytest.mark.parametrize(
    ("log", "rest", "found"),
    [
        (CUT, "", CUT),
        (EMPTY, "", EMPTY),
        (CUT, "@7:9", (7, 9)),
        (CUT, "@0:0", (0, 0)),
    ],
)
def test_offsets_that_are_there_are_taken(
    log: tuple[int, int], rest: str, found: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert range_in(log, rest, monkeypatch) == found


@pytest.mark.parametrize(
    "rest",
    [
        f"/0@{'9' * 5_000}:1",
        f"/0@1:{'9' * 20}",
        f"/{'9' * 5_000}",
        "/0@\u0663:\u0665",
        "/\u0663",
        "@x@2026-01-01",
        "@@2026-01-01",
    ],
)
def test_a_name_that_is_none_is_refused(rest: str) -> None:
    with pytest.raises(FlowdiffError):
        parse_topic_input(f"kafka://h:1/t{rest}", now_ns=0)


@pytest.mark.parametrize("servers", ["h:1?password=hunter2", "h:abc", "h:99999", "h:1,h:2#hunter2"])
def test_what_is_no_broker_is_refused_and_not_repeated(servers: str) -> None:
    with pytest.raises(FlowdiffError) as error:
        parse_topic_input(f"kafka://{servers}/t", now_ns=0)
    assert "hunter2" not in str(error.value)
