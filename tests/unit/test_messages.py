"""Messages of a log as payloads: every offset is covered, and nothing in a message raises."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from ingest.decoding import decode_polls
from ingest.messages import TOMBSTONE, payloads_of_messages
from ingest.source import Payloads
from schemas.config import DecodeConfig
from schemas.errors import UnknownFormatError
from schemas.events import concat_events
from schemas.rejects import Reason

LIMIT = 10_000
CONFIG = DecodeConfig(max_payload_bytes=LIMIT)


def record(i: int, **fields: object) -> bytes:
    known = {"breadcrumb": f"b{i}", "ts": 1_700_000_000_000_000_000 + i, "component": "c", "point": "p"}
    return json.dumps(known | fields).encode()


def pieces(
    values: list[bytes | None], offsets: list[int] | None = None, until: int | None = None, **more: int
) -> list[Payloads]:
    at = list(range(len(values))) if offsets is None else offsets
    end = len(values) if until is None else until
    return list(payloads_of_messages("t/0", "native", values, at, end, CONFIG, **more))


def zstd(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, "zstd", asbytes=True)
    return packed


def test_a_message_is_a_payload_at_its_offset() -> None:
    (piece,) = pieces([record(0), record(1)], [5, 9], until=12)
    assert (piece.stream, piece.format) == ("t/0", "native")
    assert (piece.payloads, piece.positions, piece.until) == ([record(0), record(1)], [5, 9], 12)
    assert piece.rejects == []


def test_a_poll_of_a_gap_covers_it() -> None:
    (piece,) = pieces([], until=7)
    assert (piece.format, piece.payloads, piece.until) == (None, [], 7)


def pzstd(content: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size" + zstd(content)


@pytest.mark.parametrize("pack", [gzip.compress, zstd, pzstd])
def test_a_message_that_was_packed_is_unpacked(pack: Callable[[bytes], bytes]) -> None:
    (piece,) = pieces([record(0), pack(record(1)), record(2)])
    assert piece.payloads == [record(0), record(1), record(2)]


@pytest.mark.parametrize(
    ("value", "reason", "kept"),
    [
        (None, Reason.EMPTY, b""),
        (b"", Reason.EMPTY, b""),
        (b"x" * (LIMIT + 1), Reason.TOO_LARGE, b"x" * (LIMIT + 1)),
        (gzip.compress(b" " * (LIMIT + 1), mtime=0), Reason.TOO_LARGE, None),
        (zstd(b" " * 50_000_000), Reason.TOO_LARGE, None),
        (gzip.compress(record(1) * 50, mtime=0)[:-9], Reason.BAD_COMPRESSION, None),
        (zstd(record(1) * 50)[:-3], Reason.BAD_COMPRESSION, None),
        (b"\x1f\x8b", Reason.BAD_COMPRESSION, None),
        (gzip.compress(b"", mtime=0), Reason.EMPTY, b""),
    ],
)
def test_what_is_no_payload_is_a_reject_between_its_neighbours(
    value: bytes | None, reason: Reason, kept: bytes | None
) -> None:
    (piece,) = pieces([record(0), value, record(2)], [10, 11, 15], until=16)
    assert (piece.payloads, piece.positions) == ([record(0), record(2)], [10, 15])
    (reject,) = piece.rejects
    assert (reject.reason, reject.payload, reject.raw) == (reason, 11, kept)
    assert (reject.detail == TOMBSTONE) == (value is None)
    if kept is None:
        assert value is not None
        assert (reject.size, reject.sha256) == (len(value), hashlib.sha256(value).hexdigest())
    batches = list(decode_polls(iter([piece]), CONFIG))
    rows = pa.concat_tables([b.rejects for b in batches]).to_pylist()
    assert [(r["source"], r["position"], r["reason"]) for r in rows] == [("t/0", 11, reason.value)]
    assert concat_events([b.events for b in batches])["breadcrumb"].to_pylist() == ["b0", "b2"]


def test_a_poll_in_which_nothing_is_a_payload_still_covers_its_offsets() -> None:
    (piece,) = pieces([None, b""], [3, 4], until=5)
    assert (piece.format, piece.until, len(piece.rejects)) == (None, 5, 2)


def test_a_large_poll_comes_in_pieces_that_leave_no_gap() -> None:
    big = record(0, params={"x": "y" * 5_000})
    values = [gzip.compress(big, mtime=0) if i % 3 else None for i in range(60)]
    offsets = [7 * i for i in range(60)]
    made = pieces(values, offsets, until=500, poll_bytes=20_000)
    assert len(made) > 5
    assert all(sum(map(len, piece.payloads)) <= 20_000 + len(big) for piece in made)
    begin = 0
    for piece in made:
        assert all(begin <= at < piece.until for at in piece.positions)
        assert all(begin <= reject.payload < piece.until for reject in piece.rejects)
        begin = piece.until
    assert begin == 500
    assert sum(len(piece.payloads) for piece in made) == 40
    assert sum(len(piece.rejects) for piece in made) == 20


def test_pieces_are_unpacked_as_they_are_asked_for() -> None:
    unpacked: list[int] = []

    class Noted(bytes):
        def startswith(self, *args: object) -> bool:
            unpacked.append(len(self))
            return super().startswith(*args)  # type: ignore[arg-type]

    values: list[bytes | None] = [Noted(record(i, params={"x": "y" * 3_000})) for i in range(20)]
    polled: Iterator[Payloads] = payloads_of_messages(
        "t/0", "native", values, list(range(20)), 20, CONFIG, poll_bytes=5_000
    )
    next(polled)
    assert 0 < len(unpacked) < 5


def test_names_of_the_collector_are_taken_and_others_are_not() -> None:
    (piece,) = payloads_of_messages("t/0", "otlp_proto", [b"\x0a\x00"], [0], 1, CONFIG)
    assert piece.format == "otlp-proto"
    with pytest.raises(UnknownFormatError):
        list(payloads_of_messages("t/0", "raw", [b"x"], [0], 1, CONFIG))
    with pytest.raises(ValueError, match="2 offsets"):
        list(payloads_of_messages("t/0", "native", [b"x"], [0, 1], 2, CONFIG))
