"""Dead letters: bad input as data, with a reason code, its place, and the raw bytes (bounded)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from schemas.stored_columns import stored

MAX_RAW_BYTES = 64 * 1024


class Reason(StrEnum):
    """Reason for refusing an input. Codes are stable: dashboards count them."""

    EMPTY = "empty"
    UNKNOWN_FORMAT = "unknown-format"
    """A whole file whose format is not recognised by content."""
    NOT_UTF8 = "not-utf8"
    BAD_JSON = "bad-json"
    BAD_PROTOBUF = "bad-protobuf"
    BAD_COMPRESSION = "bad-compression"
    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    WRONG_SHAPE = "wrong-shape"
    MISSING_FIELD = "missing-field"
    BAD_TYPE = "bad-type"
    BAD_VALUE = "bad-value"
    BAD_TIME = "bad-time"
    ABSURD_TIME = "absurd-time"
    """Time years away from all other events of an import, from a wrong clock (`stitch.drivers.refusals`)."""
    BAD_ID = "bad-id"
    CONFLICT = "conflict"
    """Event that has the id of another event but other content (found by the kernel)."""
    RETIRED = "retired"
    """Event of a request that began in a window retired before its import."""


REJECT_SCHEMA = pa.schema(
    [
        stored(1, "source", pa.string(), "file name, or topic/partition", nullable=True),
        stored(
            2,
            "position",
            pa.int64(),
            "offset of the payload in its source: message offset or first line, from 0",
            nullable=True,
        ),
        stored(
            3,
            "item",
            pa.int64(),
            "index of the record, line or span inside the payload, from 0",
            nullable=True,
        ),
        stored(4, "reason", pa.string(), "Reason"),
        stored(5, "detail", pa.string(), "one sentence: which field, what was expected", nullable=True),
        stored(6, "sha256", pa.string(), "of the whole refused item, hex"),
        stored(7, "size", pa.int64(), "bytes of the refused item"),
        stored(
            8,
            "raw",
            pa.binary(),
            "its first 64 KB, denied parameters blanked; null: not kept",
            nullable=True,
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class Reject:
    """Refused item of a payload. `rejects_table` adds the item's position in the source."""

    reason: Reason
    detail: str
    raw: bytes | None
    """Bytes of the refused item, cut at MAX_RAW_BYTES; None: not stored."""
    payload: int = 0
    """Index of the payload in the list given to the codec."""
    item: int = 0
    """Index of the item inside the payload."""
    sha256: str = ""
    """SHA-256 of the whole item, hex; empty: `raw` is the whole item."""
    size: int = -1
    """Size of the whole item, bytes; -1: `raw` is the whole item."""


def rejects_table(rejects: list[Reject], source: str, positions: list[int]) -> pa.Table:
    """Dead-letter rows of `rejects`; `positions[i]` is the position of payload i in `source`."""
    rows = [
        {
            "source": source,
            "position": positions[r.payload],
            "item": r.item,
            "reason": r.reason.value,
            "detail": r.detail,
            "sha256": r.sha256 or hashlib.sha256(r.raw or b"").hexdigest(),
            "size": len(r.raw or b"") if r.size < 0 else r.size,
            "raw": None if r.raw is None else r.raw[:MAX_RAW_BYTES],
        }
        for r in rejects
    ]
    return pa.Table.from_pylist(rows, schema=REJECT_SCHEMA)
