"""Write a run as lines: records or spans, optionally gzipped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import BinaryIO, cast

from simulator.emit_otlp import otlp_lines
from simulator.recording import ID, Filled, Recording, recorded_point, request_lines
from simulator.run import Progress, RunPlan, simulate
from simulator.trace import Structure, Trace
from simulator.workloads import BLOCK_BYTES


def native_lines(recording: Recording, traces: Sequence[Trace]) -> Iterator[bytes]:
    """Yield chunks of NDJSON: requests by start, records in order of their strands."""
    return request_lines(recording, traces, _template, lambda recorded: recorded.request_id)


def call_params(trace: Trace, row: int) -> str:
    """Low-level parameters of a call, as JSON text."""
    count, offset = int(trace.count[row]), int(trace.offset[row])
    aligned = "true" if offset % BLOCK_BYTES == 0 else "false"
    return (
        f'{{"count":{count},"offset":{offset},"file":{int(trace.file[row])},'
        f'"client":"client-{int(trace.client[row])}","aligned":{aligned}}}'
    )


def _template(structure: Structure, renamed: bool, rate: float) -> Filled:
    """Function that writes the lines of requests of one structure, from one format string per record.

    A format string has placeholders for the record's time, and, in the first one, for the call's parameters.
    """
    lines = []
    for number, strand in enumerate(structure.strands):
        begin = f'{{"breadcrumb":"{ID}.{number}"'
        for seq, step in enumerate(strand):
            named, placed, last = _words(step.code, renamed, rate)
            links = ""
            if step.strands:
                children = ",".join([f'"{ID}.{child}"' for child in step.strands])
                links = f',"links":[{children}]'
            params = ',"params":%s' if number == 0 and seq == 0 else ""
            lines.append(f'{begin}{named}{seq}{placed}{links}{last},"ts":%d{params}}}\n')
    whole = "".join(lines)

    def filled(trace: Trace, row: int, at: list[int], gone: list[bool] | None) -> str:
        params = call_params(trace, row)
        if gone is None:
            return whole % (at[0], params, *at[1:])
        kept = zip(lines, [(at[0], params), *((time,) for time in at[1:])], gone, strict=True)
        return "".join(line % value for line, value, lost in kept if not lost)

    return filled


@lru_cache(maxsize=4096)
def _words(code: int, renamed: bool, rate: float) -> tuple[str, str, str]:
    """JSON texts of a point's record: before its sequence number, before its links, after its links."""
    point = recorded_point(code, renamed)
    named = {"request_id": ID, "component": point.component, "point": point.name, "host": point.host}
    placed = {"label": point.label, "kind": "" if point.kind == "event" else point.kind}
    last = {
        "status": "" if point.status == "ok" else point.status,
        "params": dict(point.params),
        "sample_rate": rate if rate < 1.0 else None,
    }
    first, second, third = (_members(some) for some in (named, placed, last))
    return f'{first},"seq":', second, third


def _members(fields: Mapping[str, object]) -> str:
    """Non-empty fields as JSON members, each preceded by a comma, escaped for a format string."""
    given = {name: value for name, value in fields.items() if value}
    text = json.dumps(given, separators=(",", ":")).replace("\\u0001", ID).replace("%", "%%")
    return f",{text[1:-1]}" if given else ""


GZIP_LEVEL = 3


class RunFormat(StrEnum):
    """Format of a recorded run."""

    NATIVE = "native"
    OTLP_JSON = "otlp-json"


_EMITTERS: dict[RunFormat, Callable[[Recording, Sequence[Trace]], Iterator[bytes]]] = {
    RunFormat.NATIVE: native_lines,
    RunFormat.OTLP_JSON: otlp_lines,
}


@dataclass(frozen=True, slots=True)
class Run:
    """Finished run: its traces, and how they are recorded as lines."""

    plan: RunPlan
    recording: Recording
    traces: list[Trace]

    def lines(self, format_: RunFormat) -> Iterator[bytes]:
        """Yield chunks of whole lines, as bytes."""
        return _EMITTERS[format_](self.recording, self.traces)

    @property
    def seconds(self) -> float:
        """Simulated duration, s."""
        return max(t.end_ns for t in self.traces) / 1e9


def run(plan: RunPlan, start_ns: int, *, workers: int = 1, progress: Progress | None = None) -> Run:
    """Simulate a run that begins at `start_ns`, ns since the epoch.

    workers: number of processes; progress: callback.
    """
    traces = simulate(plan, plan.simulated_causes, workers=workers, progress=progress)
    return Run(plan, Recording(plan, start_ns), traces)


def write_lines(out: BinaryIO, chunks: Iterator[bytes], *, packed: bool) -> int:
    """Write chunks, gzipped if `packed`; returns the number of bytes before compression.

    The gzip header has no time and no name, so that equal runs give equal bytes.
    """
    written = 0
    with _compressed(out) if packed else nullcontext(out) as lines:
        for chunk in chunks:
            lines.write(chunk)
            written += len(chunk)
    return written


def _compressed(file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    stream = gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=GZIP_LEVEL, mtime=0)
    return cast(AbstractContextManager[BinaryIO], stream)
