"""The loop of `rekey`: when it ends, what it counts and what it commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from ingest.kafka import produce
from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.produce import ProduceSettings, Written, rekey
from ingest.source import Payloads, Place, StreamChange, StreamId
from schemas.errors import InputError
from schemas.rejects import Reason, Reject

STREAM, OTHER = StreamId("t", 0), StreamId("t", 1)
RECORD = b'{"breadcrumb": "b", "request_id": "r", "ts": 1, "component": "c", "point": "p"}'


class Log:
    """Two streams, of which brokers tell as scripted; what is asked for next is there."""

    def __init__(self, polls: list[Payloads | None]) -> None:
        self.polls = polls
        self.told: list[dict[StreamId, int]] = [{STREAM: 3, OTHER: 0}]
        """Ends; the last stays."""
        self.takes: list[bool] = []
        """Whether offsets are taken; they are when it is empty."""
        self.offsets: list[dict[StreamId, int]] = []
        self._gained = (STREAM, OTHER)

    def change(self) -> StreamChange:
        gained, self._gained = self._gained, ()
        return StreamChange(gained=gained)

    def committed(self, _stream: StreamId) -> Place | None:
        return None

    def start(self, _stream: StreamId, _place: Place | None) -> Place:
        return Place(0)

    def poll(self, _timeout_s: float) -> Payloads | None:
        return self.polls.pop(0) if self.polls else None

    def ends(self) -> Mapping[StreamId, int]:
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]

    def release(self, streams: Collection[StreamId]) -> None: ...

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        is_taken = self.takes.pop(0) if self.takes else True
        if is_taken:
            self.offsets.append(dict(positions))
        return is_taken

    def close(self) -> None: ...


class Topic:
    """What is written to; it takes everything."""

    def __init__(self, **_: Any) -> None:
        self.values: list[bytes] = []

    def partitions_for(self, _topic: str) -> set[int]:
        return {0}

    def send(self, _topic: str, value: bytes, _key: bytes | None, *, partition: int) -> Topic:
        assert partition == 0
        self.values.append(value)
        return self

    def add_errback(self, _failed: Callable[[BaseException], None]) -> None: ...

    def flush(self, _timeout_s: float) -> None: ...

    def close(self, timeout: float) -> None: ...


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Log], tuple[Written, list[bytes]]]:
    def rekeyed(log: Log) -> tuple[Written, list[bytes]]:
        topic = Topic()
        monkeypatch.setattr(produce, "KafkaSource", lambda _: log)
        monkeypatch.setattr(produce, "KafkaProducer", lambda **_: topic)
        written = rekey(KafkaSettings(topics=("t",)), "to", ProduceSettings(), lambda: False, until_end=True)
        return written, topic.values

    return rekeyed


def polled(*payloads: bytes, rejects: int = 0) -> Payloads:
    refused = [Reject(Reason.EMPTY, "", b"", 1)] * rejects
    return Payloads("t/0", "native" if payloads else None, list(payloads), [0] * len(payloads), 3, refused)


Run = Callable[[Log], tuple[Written, list[bytes]]]


def test_an_end_that_is_not_known_is_not_reached(run: Run) -> None:
    log = Log([None, None, None, polled(RECORD)])
    log.told = [{}, {OTHER: 0}, {STREAM: 3}, {STREAM: 3, OTHER: 0}]
    assert run(log)[1] == [RECORD]
    assert log.offsets == [{STREAM: 3, OTHER: 0}]


def test_what_is_left_out_is_counted(run: Run) -> None:
    written, _ = run(Log([polled(RECORD, b"no record", rejects=2)]))
    assert (written.items, written.unread, written.refused) == (1, 0, 3)
    # A stream of nothing else, too.
    assert run(Log([polled(rejects=2)]))[0].refused == 2


def test_what_cannot_be_read_is_passed_on_up_to_a_size(run: Run) -> None:
    damaged, long = b'{"ts": }', b"x" * 2**20
    written, values = run(Log([polled(b"\n".join([RECORD, damaged, long]))]))
    assert (written.items, written.unread, written.refused) == (2, 1, 1)
    assert sorted(values) == sorted([RECORD, damaged])


def test_offsets_that_are_not_taken_are_told_again(run: Run) -> None:
    log = Log([polled(RECORD)])
    log.takes = [False, False]
    run(log)
    assert log.offsets == [{STREAM: 3, OTHER: 0}]
    log = Log([polled(RECORD)])
    log.takes = [False] * 99
    with pytest.raises(InputError, match="the next run writes the last of the messages again"):
        run(log)
