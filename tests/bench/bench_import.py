"""Benchmark of `flowdiff import`, whole process, on seeded files; beside the plain-Python stitcher.

Run: `python tests/bench/bench_import.py [SCALE]` (1 is 1 M spans and 1.2 M records). The baseline decodes
with our codecs, then stitches with `tests/oracles` in plain Python, on a thirtieth of the size; it writes
nothing. Wall time counts starting Python; CPU time shows what two idle cores could do.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
from oracles.stitcher import read_events, stitch_plainly
from oracles.traffic import write_native, write_otlp

from ingest.files import decode_file
from schemas.config import DecodeConfig, StitchConfig

REPOSITORY = Path(__file__).resolve().parents[2]


def import_cost(
    files: list[Path], lake: Path, *options: str, repository: Path = REPOSITORY
) -> tuple[float, float]:
    """Wall and CPU seconds of the command of a repository, the process's start included.

    Modules are compiled once, as pip leaves them, even where the environment forbids byte code: compiling all
    of them at every start takes 0.6 s of CPU.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(lake.parent / f"bytecode-{repository.name}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    command = [sys.executable, "-m", "flowdiff", "import", *map(str, files), "--lake", str(lake), *options]
    subprocess.run(command, cwd=repository, check=True, stdout=subprocess.DEVNULL, env=environment)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plain_rate(file: Path) -> float:
    """Events a CPU second of the plain-Python stitcher (tests/oracles) on a file; nothing is written."""
    begin = time.process_time()
    events = read_events(pa.concat_tables(batch.events for batch in decode_file(file, None, DecodeConfig())))
    stitch_plainly(events, StitchConfig())
    return len(events) / (time.process_time() - begin)


def report(name: str, file: Path, n: int, folder: Path, sample: Path, repeats: int) -> None:
    """Print the rates of one file."""
    tiny = min(import_cost([folder / "tiny.ndjson"], folder / f"{name}-tiny-{i}")[1] for i in range(repeats))
    costs = [import_cost([file], folder / f"{name}-{i}") for i in range(repeats)]
    wall, cpu = min(cost[0] for cost in costs), min(cost[1] for cost in costs)
    baseline = max(plain_rate(sample) for _ in range(repeats))
    print(
        f"{name}: {n:,} events, {n / wall:,.0f}/s wall, {n / cpu:,.0f}/s CPU, "
        f"{2 * n / cpu:,.0f}/s on two idle cores at best; {n / (cpu - tiny):,.0f}/s CPU without the start "
        f"({tiny:.2f} s); plain-Python stitcher {baseline:,.0f}/s, ratio {n / cpu / baseline:.1f}",
        flush=True,
    )


def main(scale: float = 1.0, *, repeats: int = 3) -> None:
    """Generate, import, print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_native(folder / "tiny.ndjson", 1)
        write_native(folder / "sample.ndjson", 1_000, seed=2)
        write_otlp(folder / "sample.pb", 600, seed=2)
        native, otlp = folder / "native.ndjson", folder / "otlp.pb"
        n_records = write_native(native, int(40_000 * scale))
        report("native NDJSON", native, n_records, folder, folder / "sample.ndjson", repeats)
        n_spans = write_otlp(otlp, int(21_000 * scale))
        report("OTLP protobuf", otlp, n_spans, folder, folder / "sample.pb", repeats)


if __name__ == "__main__":
    main(*(float(argument) for argument in sys.argv[1:2]))
