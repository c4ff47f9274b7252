"""Checks of a payload before any codec reads it: size, grammar, density; split it into documents."""

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
"""Exceptions that msgspec raises for invalid input: grammar, UTF-8, nesting beyond the recursion limit."""

_BOM = b"\xef\xbb\xbf"


def without_bom(payload: bytes) -> bytes:
    """Payload without a UTF-8 byte order mark."""
    return payload.removeprefix(_BOM)


def refuse_dense(payloads: Sequence[bytes], indexes: list[int], log: RejectLog) -> list[int]:
    """Indexes of the payloads that are not dense (`is_dense_json`); the dense ones are added to `log` as
    rejects."""
    dense = [index for index in indexes if is_dense_json(payloads[index])]
    for index in dense:
        log.add(Reject(Reason.TOO_LARGE, DENSE_JSON, payloads[index], index))
    return indexes if not dense else sorted(set(indexes).difference(dense))


def sized(payloads: Sequence[bytes], config: DecodeConfig) -> tuple[list[int], RejectLog]:
    """Check the sizes of payloads: (indexes of the acceptable ones, log with a reject for each of the
    others)."""
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
    """Split items into consecutive runs whose sizes sum to at most `most`; a larger item forms a run
    alone."""
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
    """Parse JSON into plain Python objects (strict: no NaN, no lone surrogates), or return a reject. index,
    item: where the payload is, for the reject."""
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
"""Decoder that checks the grammar of JSON without converting its contents."""


def is_json(text: bytes) -> bool:
    """True if the text is exactly one well-formed JSON value, not nested too deep. About 1.6 GB/s."""
    try:
        _ANY.decode(text)
    except JSON_ERRORS:
        return False
    return True


def documents_of(payload: bytes) -> list[bytes]:
    """Split a payload into JSON documents: its lines, if the whole payload is not valid JSON and any line is
    an object; else the whole payload."""
    payload = without_bom(payload)
    if b"\n" not in payload.strip() or is_json(payload):
        return [payload]
    lines = [line for line in payload.splitlines() if line and not line.isspace()]
    if any(line.startswith(b"{") and is_json(line) for line in lines):
        return lines
    return [payload]


_MANY_VALUES = 200_000
"""Maximum number of values in a document that is never called dense: parsing an empty span takes 350 bytes
temporarily."""
_MIN_VALUE_BYTES = 6
"""Minimum bytes of text per comma or opening bracket in a document that is not dense; an OTLP attribute with
a name and a value of one letter has 9."""
_COUNT_BYTES = 2**18
NEVER_DENSE_BYTES = _MANY_VALUES * _MIN_VALUE_BYTES
"""Size in bytes below which a payload is never dense."""
DENSE_JSON = f"hundreds of thousands of values, one every {_MIN_VALUE_BYTES} bytes or less"


def is_dense_json(text: bytes) -> bool:
    """True if a document has very many values without content (`[{},{},…]`).

    Parsed, such a document takes 120 times its size. Commas and brackets inside strings are counted too.
    Several GB/s, for documents over 1 MB; smaller ones are never dense.
    """
    if len(text) < NEVER_DENSE_BYTES:
        return False
    found = 0
    for begin in range(0, len(text), _COUNT_BYTES):
        part = np.frombuffer(text, np.uint8, min(_COUNT_BYTES, len(text) - begin), begin)
        found += sum(int(np.count_nonzero(part == ord(sign))) for sign in ",{[")
    return found * _MIN_VALUE_BYTES > len(text)


def json_bytes(value: object) -> bytes:
    """JSON text of a decoded value, for a reject; empty if the value is nested too deep."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return b""
