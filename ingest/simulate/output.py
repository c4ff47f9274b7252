"""Write a run as lines: records or spans, gzipped if asked for, with its truth beside it."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, cast

from ingest.simulate.emit_native import native_lines
from ingest.simulate.emit_otlp import otlp_lines
from ingest.simulate.recording import Recording
from ingest.simulate.run import Progress, RunPlan, simulate, variants
from ingest.simulate.trace import Trace
from ingest.simulate.truth import Truth, find_truth

GZIP_LEVEL = 3


class Format(StrEnum):
    """How a run is recorded."""

    NATIVE = "native"
    OTLP_JSON = "otlp-json"


_EMITTERS: dict[Format, Callable[[Recording, Sequence[Trace]], Iterator[bytes]]] = {
    Format.NATIVE: native_lines,
    Format.OTLP_JSON: otlp_lines,
}


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: what happened, how it is recorded, and (if asked for) the truth."""

    plan: RunPlan
    recording: Recording
    traces: list[Trace]
    truth: Truth | None

    def lines(self, format_: Format) -> Iterator[bytes]:
        """Chunks of bytes, each of whole lines."""
        return _EMITTERS[format_](self.recording, self.traces)

    @property
    def seconds(self) -> float:
        """Simulated duration."""
        return max(t.end_ns for t in self.traces) / 1e9


def run(
    plan: RunPlan, start_ns: int, *, with_truth: bool, workers: int = 1, progress: Progress | None = None
) -> Run:
    """Simulate a run; with truth also its counterfactuals (one more run for one cause, 2^k - 1 for k)."""
    full = plan.simulated_causes
    subsets = variants(plan) if with_truth else [full]
    runs = simulate(plan, subsets, workers=workers, progress=progress)
    recording = Recording(plan, start_ns)
    truth = find_truth(plan, recording, runs) if with_truth else None
    return Run(plan, recording, runs[full], truth)


def write_lines(out: BinaryIO, chunks: Iterator[bytes], *, packed: bool) -> int:
    """Write chunks, gzipped if `packed`; number of bytes before compression.

    The gzip header holds no time and no name, so that the same run gives the same bytes.
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
