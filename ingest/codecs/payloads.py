"""Check a payload before any codec reads it: size, grammar, density, the documents in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from ingest.codecs.dead_letters import RejectLog
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

T = TypeVar("T")
JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec on bad input: grammar, UTF-8, nesting beyond the recursion limit."""

_BOM = b"\xef\xbb\xbf"


def without_bom(payload: bytes) -> bytes:
    """Payload without a UTF-8 byte order mark."""
    return payload.removeprefix(_BOM)


def refuse_dense(payloads: Sequence[bytes], indexes: list[int], log: RejectLog) -> list[int]:
    """Indexes of the payloads that are not dense (`is_dense_json`); dense ones are logged."""
    dense = [index for index in indexes if is_dense_json(payloads[index])]
    for index in dense:
        log.add(Reject(Reason.TOO_LARGE, DENSE_JSON, payloads[index], index))
    return indexes if not dense else sorted(set(indexes).difference(dense))


def sized(payloads: Sequence[bytes], config: DecodeConfig) -> tuple[list[int], RejectLog]:
    """(Indexes of the payloads of acceptable size, log with rejects of the others)."""
    log = RejectLog(config)
    limit = config.max_payload_bytes
    odd = [i for i, p in enumerate(payloads) if not p or len(p) > limit or p.isspace()]
    if not odd:
        return list(range(len(payloads))), log
    for index in odd:
        reason, detail = Reason.EMPTY, "the payload is empty"
        if payloads[index] and not payloads[index].isspace():
            reason = Reason.TOO_LARGE
            detail = f"{len(payloads[index])} bytes are over the limit of {limit}"
        log.add(Reject(reason, detail, payloads[index], index))
    return sorted(set(range(len(payloads))).difference(odd)), log


def runs_of(items: Iterable[T], sizes: Iterable[int], most: int) -> Iterator[list[T]]:
    """Consecutive runs of items whose sizes sum to at most `most`; a larger item is a run alone."""
    run: list[T] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if run and total + size > most:
            yield run
            run, total = [], 0
        run.append(item)
        total += size
    if run:
        yield run


def parse_json(payload: bytes, index: int = 0, item: int = 0) -> object | Reject:
    """JSON value as plain Python objects (strict: no NaN, no lone surrogates), or a reject."""
    if is_dense_json(payload):
        return Reject(Reason.TOO_LARGE, DENSE_JSON, payload, index, item)
    try:
        value: object = msgspec.json.decode(without_bom(payload))
    except RecursionError:
        return Reject(Reason.TOO_DEEP, "nested too deep", payload, index, item)
    except UnicodeDecodeError as error:
        return Reject(Reason.NOT_UTF8, f"not UTF-8 at byte {error.start}", payload, index, item)
    except msgspec.DecodeError as error:
        return Reject(Reason.BAD_JSON, str(error), payload, index, item)
    return value


_ANY = msgspec.json.Decoder(msgspec.Raw)
"""Decoder that checks the grammar and skips the contents."""


def is_json(text: bytes) -> bool:
    """True for one well-formed JSON value, not nested too deep. About 1.6 GB/s."""
    try:
        _ANY.decode(text)
    except JSON_ERRORS:
        return False
    return True


def documents_of(payload: bytes) -> list[bytes]:
    """JSON documents of a payload: the payload, or its lines if it is no document but some line is an
    object."""
    payload = without_bom(payload)
    if b"\n" not in payload.strip() or is_json(payload):
        return [payload]
    lines = [line for line in payload.splitlines() if line and not line.isspace()]
    if any(line.startswith(b"{") and is_json(line) for line in lines):
        return lines
    return [payload]


_MANY_VALUES = 200_000
"""Number of values up to which density is harmless: an empty span takes 350 bytes temporarily."""
_MIN_VALUE_BYTES = 6
"""Minimum bytes of text per comma or opening bracket; 9 for an OTLP attribute with a one-letter name and
value."""
_COUNT_BYTES = 2**18
NEVER_DENSE_BYTES = _MANY_VALUES * _MIN_VALUE_BYTES
"""Size in bytes below which a payload is never dense."""
DENSE_JSON = f"hundreds of thousands of values, one every {_MIN_VALUE_BYTES} bytes or less"


def is_dense_json(text: bytes) -> bool:
    """True for a document of very many values without content (`[{},{},…]`).

    Parsed, such a document takes 120 times its size. Commas and brackets inside strings count too. Several
    GB/s, for documents over 1 MB; smaller ones are never dense.
    """
    if len(text) < NEVER_DENSE_BYTES:
        return False
    found = 0
    for begin in range(0, len(text), _COUNT_BYTES):
        part = np.frombuffer(text, np.uint8, min(_COUNT_BYTES, len(text) - begin), begin)
        found += sum(int(np.count_nonzero(part == ord(sign))) for sign in ",{[")
    return found * _MIN_VALUE_BYTES > len(text)


def json_bytes(value: object) -> bytes:
    """JSON text of a decoded value, for a reject; empty if nested too deep."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return b""
