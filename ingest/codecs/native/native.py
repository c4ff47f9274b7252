"""Decode native activity records: one object, NDJSON, or a JSON array in a payload.

DuckDB parses all lines of all payloads at once. A line that DuckDB or a check on the columns refuses is
parsed again, alone, with the pydantic model, which gives the reason; if the model accepts the line, it is
rewritten in plain form and read like the others.

This is the only module of `ingest` that uses DuckDB. It returns one row for every line that is not blank, in
order: a row of nulls for a line that is no object, and a null for a field whose type is not that of its
column. The caller must detect both cases.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from tempfile import NamedTemporaryFile
from typing import IO

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.named_twice import members
from ingest.codecs.native.native_columns import DUCKDB_TYPES, check_record, events_of_columns
from ingest.codecs.payloads import (
    DENSE_JSON,
    JSON_ERRORS,
    NEVER_DENSE_BYTES,
    is_dense_json,
    is_json,
    parse_json,
    runs_of,
    sized,
    without_bom,
)
from ingest.codecs.port import Decoded
from ingest.codecs.values.ids import text_offsets
from schemas.arrays import I8
from schemas.config import DecodeConfig
from schemas.events import concat_events, empty_events
from schemas.records import FIELDS, ActivityRecord, explain
from schemas.rejects import Reason, Reject

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "preserve_insertion_order": True,
}


class NdjsonReader:
    """Parser of blocks of JSON lines into a table with columns of fixed types, using DuckDB."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        """`columns`: field name → DuckDB type. Names and types come from code, never from input."""
        self._columns = dict(columns)
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)

    def read(self, blocks: Sequence[bytes]) -> pa.Table:
        """Parse blocks of one or more lines into a table with one row for each line that is not blank.
        O(bytes)."""
        size = sum(len(b) + 1 for b in blocks)
        with _as_file(blocks) as path, self._connection.cursor() as cursor:
            # A cursor does not inherit settings. In a kernel without ipywidgets the progress bar is off and
            # must not be set.
            if cursor.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
                cursor.execute("SET enable_progress_bar = false")
            return cursor.sql(
                "SELECT * FROM read_json($path, columns = $columns, format = 'newline_delimited',"
                " compression = 'uncompressed', ignore_errors = true, maximum_object_size = $largest)",
                params={"path": path, "columns": self._columns, "largest": max(size, 1024)},
            ).to_arrow_table()


@contextmanager
def _as_file(blocks: Sequence[bytes]) -> Iterator[str]:
    """Context manager: path of a file with the blocks, each followed by a line end; a file in memory where
    the system supports it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("flowdiff-lines")
        with os.fdopen(descriptor, "wb") as file:
            _write(file, blocks)
            yield f"/proc/self/fd/{descriptor}"
    else:
        with NamedTemporaryFile(suffix=".ndjson") as file:
            _write(file, blocks)
            yield file.name


def _write(file: IO[bytes], blocks: Sequence[bytes]) -> None:
    for block in blocks:
        file.write(block)
        file.write(b"\n")
    file.flush()


_LINE_END, _BRACE = (ord(c) for c in "\n{")
_TOGETHER = 2_000
"""Maximum number of payloads combined into one block. If one payload of a block is not a single record,
handling the block takes 2 µs more per payload."""
_LONG_TEXT = 16 * 1024
_KNOWN_LINES = 1_000
_SHORT_LINE = 500
"""Maximum bytes of a refused line whose reason is cached during one call, as equal invalid lines repeat."""
_MANY_LINES = 300_000
"""Number of lines in a payload above which it is treated as a large file; no poll of messages reaches it."""
_LONG_LINE = 4096
_QUOTED_FIELDS = {name: f'"{name}"'.encode() for name in FIELDS}
_TOO_DEEP = (Reason.TOO_DEEP, "nested too deep")
_RUN_BYTES = 256 * 2**20
"""Approximate bytes of lines passed to DuckDB at a time."""


class NativeCodec:
    """`native`: activity records, version 1."""

    name = "native"

    def __init__(self) -> None:
        self._reader = NdjsonReader(DUCKDB_TYPES)

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is the line, or the index in the array.
        O(bytes)."""
        good, log = sized(payloads, config)
        oddities: Counter[str] = Counter()
        tables = []
        for run in runs_of(good, [len(payloads[i]) + 1 for i in good], _RUN_BYTES):
            lines = _Lines()
            for begin in range(0, len(run), _TOGETHER):
                some = run[begin : begin + _TOGETHER]
                if lines.add_singles(payloads, some):
                    continue
                for index in some:
                    reject = lines.add(payloads[index], index)
                    if reject is not None:
                        log.add(reject)
            tables.append(self._read(lines, config, log, oddities))
        return Decoded(concat_events(tables), log.in_order(), +oddities, log.counts)

    def _read(self, lines: _Lines, config: DecodeConfig, log: RejectLog, oddities: Counter[str]) -> pa.Table:
        """Decode lines to events (EVENT_SCHEMA), in order; refused lines are added to `log`."""
        if not lines.blocks:
            return empty_events()
        columns = self._reader.read(lines.blocks)
        if len(columns) != lines.count:
            # DuckDB gives no row for a blank line: number the others, and read again.
            lines = lines.without_blanks()
            if lines.count == 0:
                return empty_events()
            columns = self._reader.read(lines.blocks)
        events, bad = events_of_columns(columns, config, oddities)
        oddities["unknown-field"] += _unknown_fields(lines.blocks, columns)
        if not bad.any():
            return events
        rows = np.flatnonzero(bad)
        payload, item = lines.places()
        taken: list[int] = []
        plain: list[bytes] = []
        known: dict[bytes, bytes | tuple[Reason, str]] = {}
        params = columns["params"].take(pa.array(rows)).to_pylist()
        for row, line, its_params in zip(rows.tolist(), _pick_lines(lines.blocks, rows), params, strict=True):
            record = known.get(line) or _explain(line, its_params, config)
            if len(known) < _KNOWN_LINES and len(line) < _SHORT_LINE:
                known[line] = record
            if isinstance(record, bytes):
                taken.append(row)
                plain.append(record)
            elif log.is_full:
                log.count(record[0])
            else:
                log.add(Reject(*record, line, int(payload[row]), int(item[row])))
        events = events.filter(pa.array(~bad))
        if not taken:
            return events
        # Oddities of these lines were counted the first time.
        again, still_bad = events_of_columns(self._reader.read(plain), config, Counter(), trusted=True)
        for i in np.flatnonzero(still_bad).tolist():
            row = taken[i]
            detail = "the record cannot be represented in columns"
            log.add(Reject(Reason.BAD_VALUE, detail, plain[i], int(payload[row]), int(item[row])))
        order = np.argsort(np.concatenate([np.flatnonzero(~bad), np.array(taken)[~still_bad]]), kind="stable")
        return concat_events([events, again.filter(pa.array(~still_bad))]).take(pa.array(order))


class _Lines:
    """Lines of many payloads, with the payload and the item number of each line."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        """Blocks of one or more lines; no block ends with a line end."""
        self.count = 0
        self._places: list[tuple[int | I8, int | I8]] = []
        """(payload, items) for each block. payload: index of the payload of all its lines, or an array with
        one index per line. items: number of its lines, or an array with the item number of each line."""

    def add_singles(self, payloads: Sequence[bytes], indexes: Sequence[int]) -> bool:
        """Add payloads that are one record each, like messages of a log, as one block; if any payload is not,
        add nothing and return False.

        indexes: payload index of each. Python does not parse the payloads: each must begin with a brace, and
        contain no line end except possibly at its end.
        """
        chosen = [payloads[i] for i in indexes]
        lengths = np.fromiter(map(len, chosen), np.int64, len(chosen))
        if lengths.max() >= NEVER_DENSE_BYTES:
            return False
        has_ends = chosen[0].endswith(b"\n")
        text = b"".join(chosen)[:-1] if has_ends else b"\n".join(chosen)
        ends = np.cumsum(lengths if has_ends else lengths + 1)[:-1] - 1
        found = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_END)
        begins = np.frombuffer(text, np.uint8)[np.concatenate([[0], ends + 1])]
        if not np.array_equal(found, ends) or (begins != _BRACE).any():
            return False
        self._append(text, np.array(indexes, np.int64), np.zeros(len(chosen), np.int64))
        return True

    def add(self, payload: bytes, index: int) -> Reject | None:
        """Add the records of the payload with this index; return a reject if it is a malformed or dense JSON
        array, else None."""
        text = without_bom(payload).strip(b" \t\r\n")
        count = _line_ends(text) + 1
        is_array = text.startswith(b"[")
        # For ordinary lines only their ends are counted.
        is_odd = is_array or count > _MANY_LINES or len(text) > count * _LONG_LINE
        if is_odd and is_dense_json(text):
            return Reject(Reason.TOO_LARGE, DENSE_JSON, payload, index)
        if is_array:
            records = _array_items(text, index)
            if isinstance(records, Reject):
                return records
            if records:
                self._append(b"\n".join(records), index, len(records))
        elif b"\n" in text and text.startswith(b"{") and is_json(text):
            self._append(msgspec.json.format(text, indent=-1), index, 1)
        else:
            self._append(text, index, count)
        return None

    def _append(self, text: bytes, payload: int | I8, items: int | I8) -> None:
        self.blocks.append(text)
        self._places.append((payload, items))
        self.count += items if isinstance(items, int) else len(items)

    def without_blanks(self) -> _Lines:
        """Copy without the blank lines; the remaining lines keep their item numbers."""
        out = _Lines()
        for text, place in zip(self.blocks, self._places, strict=True):
            lines = text.split(b"\n")
            full = [i for i, line in enumerate(lines) if line and not line.isspace()]
            if full:
                payload, items = _spread(*place)
                out._append(b"\n".join(lines[i] for i in full), payload[full], items[full])
        return out

    def places(self) -> tuple[I8, I8]:
        """([lines] payload index, [lines] item number) of all lines."""
        spread = [_spread(*place) for place in self._places]
        return np.concatenate([p for p, _ in spread]), np.concatenate([i for _, i in spread])


def _spread(payload: int | I8, items: int | I8) -> tuple[I8, I8]:
    """([lines] payload index, [lines] item number) of the lines of one block. payload, items: as in
    `_Lines._places`."""
    numbers = np.arange(items) if isinstance(items, int) else items
    return np.full(len(numbers), payload) if isinstance(payload, int) else payload, numbers


def _line_ends(text: bytes) -> int:
    """Number of line ends. For long text numpy is several times faster than `bytes.count`."""
    if len(text) < _LONG_TEXT:
        return text.count(b"\n")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LINE_END))


def _array_items(text: bytes, index: int) -> list[bytes] | Reject:
    """Split a JSON array into its elements, each as one line; a reject if the payload with this index is
    malformed."""
    try:
        raws = msgspec.json.decode(text, type=list[msgspec.Raw])
    except JSON_ERRORS:
        reject = parse_json(text, index)
        if isinstance(reject, Reject):
            return reject
        return Reject(Reason.BAD_JSON, "the payload is no JSON array", text, index)
    return [msgspec.json.format(raw, indent=-1) if b"\n" in bytes(raw) else bytes(raw) for raw in raws]


def _pick_lines(blocks: Sequence[bytes], rows: I8) -> list[bytes]:
    """Lines with the numbers `rows` (ascending), counted over all blocks; no line may be blank."""
    out: list[bytes] = []
    first = 0
    for block in blocks:
        ends = np.append(np.flatnonzero(np.frombuffer(block, np.uint8) == _LINE_END), len(block))
        starts = np.concatenate([[0], ends[:-1] + 1])
        here = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(ends))] - first
        out += [block[a:b] for a, b in zip(starts[here].tolist(), ends[here].tolist(), strict=True)]
        first += len(ends)
    return out


def _explain(line: bytes, params: str | None, config: DecodeConfig) -> bytes | tuple[Reason, str]:
    """Find out why a line was refused: (reason, detail); or, if the model accepts the record, the record
    rewritten in plain form.

    `params`: parameters as read by DuckDB (None also if it did not read the line); they are copied unchanged.
    """
    value = parse_json(line)
    if isinstance(value, Reject):
        return value.reason, value.detail
    try:
        record = ActivityRecord.model_validate(
            _first_of_each(line) if _may_name_twice(line, value) else value
        )
    except RecursionError:
        return _TOO_DEEP
    except ValidationError as error:
        return explain(error)
    complaint = check_record(record, config)
    if complaint is not None:
        return complaint
    fields = record.model_dump(mode="json", exclude_none=True, exclude={"params"})
    fields["params"] = record.params if params is None else msgspec.Raw(params.encode())
    try:
        return msgspec.json.encode(fields)
    except RecursionError:
        return _TOO_DEEP


def _may_name_twice(line: bytes, value: object) -> bool:
    r"""True if a known field may occur twice in the record; a letter of a name may be escaped, as in
    `\u0061`."""
    if not isinstance(value, dict):
        return False
    quoted = [_QUOTED_FIELDS[name] for name in value if name in _QUOTED_FIELDS]
    return b"\\u00" in line or any(line.count(name) > 1 for name in quoted)


def _first_of_each(line: bytes) -> dict[str, object]:
    """Parse a record as DuckDB does: of several members with one name, the first counts."""
    return dict(reversed(members(line)))


def _unknown_fields(blocks: Sequence[bytes], columns: pa.Table) -> int:
    """Number of members, in all lines, whose names are not known fields.

    Every name is followed by `":`, so the number of `":` shows whether there is an unknown name; only then
    are the lines parsed.
    """
    names = sum(_names(block) for block in blocks)
    known = sum(len(columns) - columns[name].null_count for name in FIELDS)
    for params in columns["params"].chunks:
        data = params.buffers()[2]
        if data is not None:
            bounds = text_offsets(params)
            known += _names(memoryview(data)[bounds[0] : bounds[-1]])
    return 0 if names == known else _count_unknown(blocks)


def _names(data: bytes | memoryview) -> int:
    """Number of occurrences of `":`, an upper bound of the number of member names."""
    if isinstance(data, bytes) and len(data) < _LONG_TEXT:
        return data.count(b'":')
    text = np.frombuffer(data, np.uint8)
    return int(np.count_nonzero((text[:-1] == ord('"')) & (text[1:] == ord(":"))))


def _count_unknown(blocks: Sequence[bytes]) -> int:
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    known = frozenset(FIELDS)
    count = 0
    for line in chain.from_iterable(block.split(b"\n") for block in blocks):
        try:
            count += sum(1 for name in decode(line) if name not in known)
        except JSON_ERRORS:
            continue
    return count
