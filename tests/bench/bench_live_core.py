"""What a live lane costs between the log and the disk: messages in memory to encoded Parquet, one process.

Run: `python tests/bench/bench_live_core.py [SPANS] [SECONDS]`. OTLP protobuf messages of 500 spans, 20 to a
poll, SECONDS of event time; a commit (segment and windows encoded, nothing written) every million spans.
Beside it, as the baseline, what a batch import does with the same messages (decode, stitch at once, encode).
Before that, what the process holds when all of the spans are open at once.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
import pyarrow.compute as pc
from oracles import traffic

from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import concat_events
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.live.closed_memory import ClosedMemory
from stitch.drivers.live.due import Due
from stitch.drivers.live.lane_buffer import LaneBuffer
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Moment
from stitch.kernel import stitch
from stitch.lake.encoding import encode
from stitch.lake.event_log import encode_segment
from stitch.lake.windowing import WindowPart, cut

WINDOW_NS = NS_PER_MINUTE
POLL = 20
COMMIT_SPANS = 1_000_000
SPANS = 48
"""A trace."""


def polls(messages: Sequence[bytes]) -> Iterator[pa.Table]:
    """Events of one poll after another."""
    decode = codec_for("otlp-proto").decode
    for begin in range(0, len(messages), POLL):
        yield decode(messages[begin : begin + POLL], DecodeConfig()).events


def written(parts: Sequence[WindowPart]) -> int:
    """Bytes of the files of some windows."""
    return sum(
        encode(name, table, part.window).size
        for part in parts
        for name, table in (("flows", part.flows), ("structures", part.structures), ("params", part.params))
        if table.num_rows
    )


def live(messages: Sequence[bytes], settings: LiveSettings) -> tuple[int, int]:
    """Spans published and the most that were open."""
    buffer = LaneBuffer(settings, WINDOW_NS, 1, ClosedMemory(), None)
    latest = since = published = most = 0

    def commit(due: Due) -> int:
        written([*due.parts()])
        if due.has_segment:
            encode_segment("s", due.log_rows())
        buffer.committed(due)
        return due.counters.events_published

    for events in polls(messages):
        latest = max(latest, pc.max(events["end_ns"]).as_py())
        buffer.add(events, Moment.exactly(latest))
        buffer.advance(latest - settings.lateness_ns)
        since += events.num_rows
        most = max(most, buffer.open_events)
        if since >= COMMIT_SPANS or buffer.seals:
            published += commit(buffer.due())
            since = 0
    return published + commit(buffer.everything()), most


def resident_gb() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**30


def hold(messages: Sequence[bytes], settings: LiveSettings) -> None:
    """Print what it takes to hold all of it open, and to close it."""
    before = resident_gb()
    buffer = LaneBuffer(settings, WINDOW_NS, 1, ClosedMemory(), None)
    for events in polls(messages):
        buffer.add(events, Moment.exactly(traffic.START_NS + 3600 * NS_PER_SECOND))
        buffer.advance(traffic.START_NS)
    buffer.committed(buffer.due())
    held, n = resident_gb(), buffer.open_events
    written([*buffer.everything().parts()])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{n:,} spans open: {held:.2f} GB resident, {held - before:.2f} GB of it theirs; "
        f"to close them all at once took the process to {peak:.2f} GB",
        flush=True,
    )


def batch(messages: Sequence[bytes], settings: LiveSettings) -> int:
    """The same at once."""
    events = concat_events(list(polls(messages)))
    made = stitch(events, settings.stitch)
    written(list(cut(made.flows, made.structures, made.params, WINDOW_NS)))
    return events.num_rows


def cost(work: str, n: int, begin: tuple[float, float]) -> None:
    """Print what was done since `begin` (wall, CPU)."""
    wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{work}: {n:,} spans, {n / wall:,.0f} spans/s, {n / cpu:,.0f} spans/CPU-s, "
        f"{1e6 * cpu / n:.2f} us a span; peak of the process so far {peak:.2f} GB",
        flush=True,
    )


def main(n_spans: int = 1_000_000, seconds: int = 120, *, profile: bool = False) -> None:
    """Generate, run, print."""
    traffic.SPANS_PER_MESSAGE = 500
    messages = list(traffic.otlp_messages(n_spans // SPANS, seconds=seconds, spans=SPANS))
    settings = LiveSettings()
    list(polls(messages[:POLL]))
    if profile:
        with cProfile.Profile() as found:
            live(messages, settings)
        pstats.Stats(found).sort_stats("tottime").print_stats(35)
        return
    hold(messages, settings)
    now = time.perf_counter(), time.process_time()
    published, most = live(messages, settings)
    cost(f"live lane, {most:,} open at most", published, now)
    now = time.perf_counter(), time.process_time()
    for _ in polls(messages):
        pass
    cost("decoding alone", published, now)
    now = time.perf_counter(), time.process_time()
    cost("batch", batch(messages, settings), now)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), profile=len(sys.argv) > 3)
