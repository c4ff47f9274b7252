"""Decode X-Trace reports, `[{"id", "reports": [{"X-Trace": […], "Edge": […], …}]}]`, into records.

The metadata `X-Trace` of a report contains the id of the task (the request) and of the event; `Edge` contains
the event ids of the event's predecessors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.codecs.payloads import refuse_dense, sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.spans_to_events import EARLIEST_NS, LATEST_NS
from ingest.codecs.values.attributes import attribute_table, plain_value
from ingest.codecs.values.columns import event_table
from ingest.codecs.values.json_fields import ItemError, Object, array, as_object, read_items
from ingest.codecs.values.names import clean_words, constant_words, normalise_label, words
from ingest.codecs.values.params import params_column
from schemas.arrays import I8
from schemas.config import DecodeConfig
from schemas.events import EventKind, empty_events
from schemas.rejects import Reason

TICK_NS = 1_000_000
"""Resolution of timestamps, ns: a timestamp t means "in [t, t + 1 ms)"."""
_TASK_BYTES = (4, 8, 12, 20)
"""Length of the task id in bytes, indexed by the two low bits of the metadata's flags."""
_LONG_EVENT = 0x08
"""Bit of the metadata's flags that is set if the event id has 8 bytes instead of 4."""
_HEX = re.compile(r"[0-9A-Fa-f]+")
_TIME = re.compile(r"([0-9]{1,16})(?:\.([0-9]{1,9}))?")
_OWN_COLUMNS = frozenset({"X-Trace", "Edge", "Host", "Timestamp", "version"})
"""Fields of a report that do not become parameters, as columns hold them. Agent and Label do become
parameters, because their ids are removed in component and point."""


@dataclass(frozen=True, slots=True)
class _Report:
    """Report of one event, after validation."""

    task: str
    event: str
    parents: list[str]
    ts_ns: int
    component: str
    point: str
    host: str | None
    process: str
    counter_ns: int | None
    """Value of HRT, the process's high-resolution counter, ns; None: not given."""
    params: list[tuple[str, object]]


class XTraceCodec:
    """`xtrace`: each payload is JSON with the reports of tasks."""

    name = "xtrace"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is the index of the report in its payload."""
        good, log = sized(payloads, config)
        good = refuse_dense(payloads, good, log)
        reports: list[_Report] = []
        source: list[int] = []

        def add(payload: int, _item: int, value: object) -> None:
            reports.append(_read(value))
            source.append(payload)

        read_items(payloads, good, _entries, add, log)
        oddities: Counter[str] = Counter()
        events = _events(reports, source, config, oddities)
        return Decoded(events, log.in_order(), +oddities, log.counts)


def _entries(document: object) -> Iterator[object]:
    """Yield the reports of all tasks. Items that are no task are yielded unchanged, so that they are refused
    as reports."""
    for task in document if isinstance(document, list) else [document]:
        reports = task.get("reports") if isinstance(task, dict) else None
        if isinstance(reports, list):
            yield from reports
        else:
            yield task


def _read(value: object) -> _Report:
    """Validate one report. Raises ItemError."""
    report = as_object(value, "a report")
    task, event = _metadata(_first(report, "X-Trace"))
    host, process = _first(report, "Host"), _first(report, "ProcessID")
    counter = _first(report, "HRT")
    class_ = _first(report, "Class")
    component = _first(report, "Agent") or (class_ or "").rpartition(".")[2] or "?"
    return _Report(
        task=task,
        event=event,
        parents=_parents(report),
        ts_ns=_timestamp(_first(report, "Timestamp")),
        component=component,
        point=_first(report, "Label") or _first(report, "Operation") or "?",
        host=host,
        process=f"{host}/{process}",
        counter_ns=int(counter) if counter is not None and re.fullmatch(r"[0-9]{1,18}", counter) else None,
        params=[(key, _param(v)) for key, v in report.items() if key not in _OWN_COLUMNS],
    )


def _first(report: Object, name: str) -> str | None:
    """First value of the field `name`; None if absent. Reports write every value as a list. Raises
    ItemError."""
    value = report.get(name)
    if isinstance(value, list):
        value = value[0] if value else None
    if value is None or isinstance(value, str):
        return value
    raise ItemError(Reason.BAD_TYPE, f"{name} is not a string")


def _metadata(text: str | None) -> tuple[str, str]:
    """Parse X-Trace metadata, whose first byte is flags: (task id, event id). Raises ItemError."""
    if text is None:
        raise ItemError(Reason.MISSING_FIELD, "X-Trace is missing")
    if not _HEX.fullmatch(text) or len(text) < 2:
        raise ItemError(Reason.BAD_ID, "X-Trace is not hex")
    flags = int(text[:2], 16)
    split = 2 + 2 * _TASK_BYTES[flags & 3]
    end = split + (16 if flags & _LONG_EVENT else 8)
    if len(text) < end:
        raise ItemError(Reason.BAD_ID, f"X-Trace is shorter than its flags say ({end} digits)")
    task, event = text[2:split].lower(), text[split:end].lower()
    if not task.strip("0") or not event.strip("0"):
        raise ItemError(Reason.BAD_ID, "X-Trace names no task or no event")
    return task, event


def _parents(report: Object) -> list[str]:
    """Distinct event ids of a report's predecessors; an id of zeros is ignored. Raises ItemError."""
    parents: list[str] = []
    for edge in array(report, "Edge"):
        if not isinstance(edge, str) or not _HEX.fullmatch(edge):
            raise ItemError(Reason.BAD_ID, "Edge is not hex")
        if edge.strip("0"):
            parents.append(edge.lower())
    return list(dict.fromkeys(parents))


def _timestamp(text: str | None) -> int:
    """Time in ns since the epoch: a whole number is in ms, a number with a decimal point in s. Raises
    ItemError."""
    if text is None:
        raise ItemError(Reason.MISSING_FIELD, "Timestamp is missing")
    match = _TIME.fullmatch(text)
    if match is None:
        raise ItemError(Reason.BAD_TYPE, "Timestamp is not a number")
    whole, fraction = int(match[1]), match[2]
    ns = whole * 10**6 if fraction is None else whole * 10**9 + int(fraction.ljust(9, "0"))
    if not EARLIEST_NS <= ns < LATEST_NS:
        raise ItemError(Reason.BAD_TIME, "Timestamp lies outside 1990 to 2200")
    return ns


def _param(value: object) -> object:
    """Value of a parameter: for a list with one element the element, for text that is a number the number."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str) and re.fullmatch(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?", value):
        return float(value)
    return plain_value(value)


def _events(
    reports: list[_Report], source: list[int], config: DecodeConfig, oddities: Counter[str]
) -> pa.Table:
    if not reports:
        return empty_events()
    n = len(reports)
    owner = [i for i, r in enumerate(reports) for _ in r.params]
    pairs = [pair for r in reports for pair in r.params]
    params = attribute_table(owner, [k for k, _ in pairs], [v for _, v in pairs])
    names = {
        "component": [r.component for r in reports],
        "point": [r.point for r in reports],
        "host": [r.host for r in reports],
    }
    columns = {
        name: clean_words(
            words(pa.array(column, pa.string())),
            config.max_name_bytes,
            oddities,
            str if name == "host" else normalise_label,
        )
        for name, column in names.items()
    }
    columns |= {
        "kind": pa.array(np.full(n, EventKind.EVENT, np.uint8)),
        "request_id": pa.array([r.task for r in reports]),
        "id": pa.array([r.event for r in reports], pa.binary()),
        "parents": pa.array([r.parents or None for r in reports], pa.list_(pa.binary())),
        "ts_ns": pa.array(
            refine_times(
                np.array([r.ts_ns for r in reports]),
                [r.counter_ns for r in reports],
                list(zip(source, (r.task for r in reports), (r.process for r in reports), strict=True)),
            )
        ),
        "shared": pa.array(np.zeros(n, np.bool_)),
        "status": constant_words("ok", n),
        "params": params_column(n, [params], config, oddities),
    }
    return event_table(columns, n)


def refine_times(ts_ns: I8, counter_ns: Sequence[int | None], process: Sequence[Hashable]) -> I8:
    """Refine times within their millisecond by the high-resolution counter of the process: [reports] `ts_ns`,
    more exact.

    Within one process counter and clock differ by a constant c, and every report implies `ts ≤ counter + c <
    ts + 1 ms`. If any c satisfies all reports of the process, the smallest such c is used; otherwise (the
    clock was set, or drifted by more than a millisecond) the process's times are unchanged. So rounding down
    to the millisecond gives the original timestamp, and order across processes is as reliable as before.
    O(n).
    """
    groups: dict[Hashable, list[int]] = {}
    for i, (key, counter) in enumerate(zip(process, counter_ns, strict=True)):
        if counter is not None:
            groups.setdefault(key, []).append(i)
    out = ts_ns.copy()
    for rows in groups.values():
        at = np.array(rows)
        counted = np.array([counter_ns[i] for i in rows], np.int64)
        lower = ts_ns[at] - counted
        offset = lower.max()
        if offset < lower.min() + TICK_NS and not (ts_ns[at] % TICK_NS).any():
            out[at] = counted + offset
    return out
