"""Payloads through the codecs: in order, gathered, never too many at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Event

import pytest

from ingest.codecs.port import Decoded
from ingest.source import Payloads, StreamId
from schemas.config import DecodeConfig
from schemas.events import empty_events
from schemas.rejects import Reason, Reject
from stitch.drivers.live import decoders as module
from stitch.drivers.live.decoders import AHEAD, GATHERED_MESSAGES, GATHERED_NS, Decoders, joined

A, B = StreamId("spans", 0), StreamId("spans", 1)


def poll(stream: StreamId, *offsets: int, **changed: object) -> Payloads:
    """A record a message, in which its offset is told."""
    told = [
        {"breadcrumb": "b", "ts": 1_800_000_000 * 10**9, "component": "web", "point": f"p{at}"}
        for at in offsets
    ]
    made = Payloads(
        stream=stream.name,
        format="native",
        payloads=[json.dumps(record).encode() for record in told],
        positions=list(offsets),
        until=offsets[-1] + 1,
        rejects=[],
        latest_ns=offsets[0],
    )
    return replace(made, **changed)  # type: ignore[arg-type]


@pytest.fixture
def decoders() -> Iterator[Decoders]:
    made = Decoders(DecodeConfig())
    yield made
    made.close()


def taken(decoders: Decoders, now_ns: int, *, drain: bool = False) -> list[tuple[StreamId, list[str], int]]:
    return [
        (stream, decoded.events["point"].to_pylist(), payloads.until)
        for stream, payloads, decoded in decoders.take(now_ns, drain=drain)
    ]


def soon(decoders: Decoders, now_ns: int) -> list[tuple[StreamId, list[str], int]]:
    """What is decoded without being drained; a thread is at it."""
    deadline = time.monotonic() + 30
    while not (found := taken(decoders, now_ns)):
        assert time.monotonic() < deadline
    return found


def test_what_comes_of_a_stream_is_gathered_for_a_moment(decoders: Decoders) -> None:
    assert not decoders
    decoders.give(A, poll(A, 0, 1), 0)
    decoders.give(A, poll(A, 2), 1)
    assert decoders
    assert taken(decoders, GATHERED_NS - 1) == []
    decoders.give(B, poll(B, 7), GATHERED_NS)
    assert soon(decoders, GATHERED_NS) == [(A, ["p0", "p1", "p2"], 3)]
    assert taken(decoders, GATHERED_NS, drain=True) == [(B, ["p7"], 8)]
    assert not decoders


def test_much_is_decoded_at_once(decoders: Decoders) -> None:
    decoders.give(A, poll(A, *range(GATHERED_MESSAGES)), 0)
    assert soon(decoders, 0)[0][2] == GATHERED_MESSAGES


def test_another_format_is_not_gathered_with_the_one_before(decoders: Decoders) -> None:
    decoders.give(A, poll(A, 0), 0)
    decoders.give(A, poll(A, 1, payloads=[b"{}"], format="otlp-json"), 0)
    decoders.give(A, poll(A, 2), 0)
    assert [until for _, _, until in taken(decoders, 0, drain=True)] == [1, 2, 3]


def test_rejects_alone_need_no_codec(decoders: Decoders) -> None:
    reject = Reject(Reason.BAD_COMPRESSION, "cut", b"")
    decoders.give(A, poll(A, 5, payloads=[], positions=[], rejects=[reject], format=None), 0)
    (one,) = decoders.take(0, drain=True)
    assert (one[1].rejects, one[2].events.num_rows) == ([reject], 0)


class Slow:
    """A codec that waits until it is told to go on."""

    def __init__(self) -> None:
        self.go = Event()
        self.order: list[bytes] = []

    def decode(self, payloads: list[bytes], _: DecodeConfig) -> Decoded:
        if payloads == [b"first"]:
            assert self.go.wait(10)
        self.order.append(payloads[0])
        if len(self.order) == 2:
            self.go.set()
        return Decoded(empty_events(), [])


def test_the_order_is_that_of_coming_whoever_is_done_first(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    monkeypatch.setattr(module, "codec_for", lambda _: slow)
    for at, value in enumerate((b"first", b"second", b"third")):
        decoders.give(A, poll(A, at, payloads=[value]), 0)
        assert [*decoders.take(GATHERED_NS * (at + 1))] == []  # each decode waits behind the first
    found = [payloads.payloads[0] for _, payloads, _ in decoders.take(0, drain=True)]
    assert found == [b"first", b"second", b"third"]
    assert slow.order[0] == b"second"


def test_no_more_than_some_are_under_way(decoders: Decoders, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(module, "codec_for", lambda _: slow)
    values = [b"first", *(b"%d" % n for n in range(AHEAD))]
    found = []
    for at, value in enumerate(values):
        decoders.give(A, poll(A, at, payloads=[value]), 0)
        # The last one waits for the first, which goes on when two others are done.
        found += [payloads.payloads[0] for _, payloads, _ in decoders.take(GATHERED_NS * (at + 1))]
    assert found[:1] == [b"first"]
    assert [*found, *(p.payloads[0] for _, p, _ in decoders.take(0, drain=True))] == values


def test_polls_are_joined_as_they_came() -> None:
    reject = Reject(Reason.BAD_JSON, "no", b"{")
    whole = joined([poll(A, 0, 1), poll(A, 3, rejects=[reject], latest_ns=None), poll(A, 9)])
    assert (whole.positions, whole.until, whole.latest_ns, whole.rejects) == ([0, 1, 3, 9], 10, 9, [reject])
    assert len(whole.payloads) == 4
    assert joined([poll(A, 0, latest_ns=None), poll(A, 1, latest_ns=None)]).latest_ns is None
