"""Decoding of OTLP protobuf: both readers, and another checkout's, in turns: CPU a span.

Run: `python tests/bench/bench_decode.py [BASE]`. Spans of `trace_stream.py` in messages of 4, 50 and 500, in
polls of 20, 100 and 500 messages. Ratios are to the first named: the version of the checkout BASE where it is
given, else the portable reader. `upb` is `ExportTraceServiceRequest.FromString` alone. Each side is a process
of its own that lives through all turns.
"""

from __future__ import annotations

import pickle
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
SIZES = (500, 50, 4)
POLLS = (20, 100, 500)
SPANS = {500: 60_000, 50: 30_000, 4: 6_000}
ROUNDS = 5
BEGIN_NS = 1_790_000_000_000_000_000


def side(checkout: Path, reader: str) -> subprocess.Popen[str]:
    """A process that answers `file poll` with CPU nanoseconds a span."""
    command = [sys.executable, __file__, "--side", str(checkout), reader]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(checkout: str, reader: str) -> None:
    """Be such a process."""
    sys.path[:0] = [checkout]
    import time

    import pyarrow as pa
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from ingest.codecs.otlp.otlp_proto import OtlpProtoCodec
    from schemas.config import DecodeConfig

    pa.set_cpu_count(1)
    config = DecodeConfig()
    if reader == "portable":
        from ingest.codecs.otlp.wire.library import Found

        codec = OtlpProtoCodec(Found(None))
    else:
        codec = OtlpProtoCodec()
    for line in sys.stdin:
        file, poll = line.split()
        messages, spans = pickle.loads(Path(file).read_bytes())
        begin = time.process_time_ns()
        for first in range(0, len(messages), int(poll)):
            some = messages[first : first + int(poll)]
            if reader == "upb":
                for message in some:
                    ExportTraceServiceRequest.FromString(message)
            else:
                codec.decode(some, config)
        print((time.process_time_ns() - begin) / spans, flush=True)


def main(base: str = "") -> None:
    """Print a line for each size and poll."""
    sys.path[:0] = [str(HERE / "tests")]
    from bench.trace_stream import messages

    sides = {"base": side(Path(base).resolve(), "installed")} if base else {}
    sides |= {"portable": side(HERE, "portable"), "native": side(HERE, "installed"), "upb": side(HERE, "upb")}
    first = next(iter(sides))
    with tempfile.TemporaryDirectory() as folder:
        for heavy in (True, False):
            for size in SIZES:
                made = [*messages(SPANS[size], heavy=heavy, begin_ns=BEGIN_NS, batch=size)]
                file = Path(folder) / f"{heavy}-{size}.pickle"
                file.write_bytes(pickle.dumps((made, SPANS[size])))
                for poll in POLLS:
                    found = turns(sides, f"{file} {poll}\n")
                    median = {name: statistics.median(values) for name, values in found.items()}
                    shown = ", ".join(
                        f"{name} {value / 1e3:.2f} µs"
                        + (f" ({value / median[first]:.2f})" if name != first else "")
                        for name, value in median.items()
                    )
                    kind = "heavy" if heavy else "light"
                    print(f"{kind}, {size} spans a message, polls of {poll}: {shown}", flush=True)
    for process in sides.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def turns(sides: dict[str, subprocess.Popen[str]], asked: str) -> dict[str, list[float]]:
    """Nanoseconds of every side, ROUNDS times in turns after one that does not count."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, process in sides.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(asked)
            process.stdin.flush()
            spent = float(process.stdout.readline())
            if number:
                found[name].append(spent)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        answer(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
