"""Benchmark of `flowdiff import --engine spark` on a cluster of this machine, beside one process.

Run: `PYTHONPATH=tests python tests/bench/bench_spark.py [TRACES]`, where pyspark is installed (`make spark`);
48 spans a trace, in eight files of OTLP protobuf.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from oracles.traffic import write_otlp

FILES: Final = 8
TICKS: Final = os.sysconf("SC_CLK_TCK")
LOOK_EVERY_S: Final = 0.2
PR_SET_CHILD_SUBREAPER: Final = 36
ONE: Final = ("--workers", "1")
SPARK: Final = (
    *("--engine", "spark", "--master", "local-cluster[2,1,1024]"),
    *("--conf", "spark.driver.memory=512m", "--conf", "spark.ui.enabled=false"),
)


def cpu_seconds(command: list[str]) -> dict[str, float]:
    """CPU seconds of a command and all that it starts, by program, as last seen.

    Python of Spark's executors is waited for by nobody, so `getrusage` does not count it. What outlives its
    parent becomes ours.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    seen: dict[int, tuple[str, float]] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            seen |= descendants()
            time.sleep(LOOK_EVERY_S)
    while descendants():
        seen |= descendants()
        os.waitpid(-1, os.WNOHANG)
        time.sleep(LOOK_EVERY_S)
    assert process.returncode == 0, command
    spent: defaultdict[str, float] = defaultdict(float)
    for program, seconds in seen.values():
        spent[program] += seconds
    return spent


def descendants() -> dict[int, tuple[str, float]]:
    """Program and CPU seconds so far of all processes below this one."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[str, float]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            program, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        fields = rest.split()
        parents[int(folder.name)] = int(fields[1])
        found[int(folder.name)] = program, (int(fields[11]) + int(fields[12])) / TICKS

    def is_ours(process: int) -> bool:
        parent = parents.get(process, 0)
        return parent == os.getpid() or (parent > 1 and is_ours(parent))

    return {process: what for process, what in found.items() if is_ours(process)}


def report(
    name: str, files: list[Path], spans: int, tiny: Path, folder: Path, options: tuple[str, ...]
) -> None:
    """Print what an import of the files costs, and what of it is its start."""

    def cost(what: str, files: list[Path]) -> dict[str, float]:
        lake = str(folder / f"{name}-{what}")
        return cpu_seconds(
            [sys.executable, "-m", "flowdiff", "import", *map(str, files), "--lake", lake, *options]
        )

    start, whole = cost("start", [tiny]), cost("all", files)
    total = sum(whole.values())
    beyond = total - sum(start.values())
    programs = ", ".join(
        f"{program} {seconds:.1f} (start {start[program]:.1f})" for program, seconds in whole.items()
    )
    print(f"{name}: {spans:,} spans, {total:.1f} CPU s: {programs}; ", end="")
    print(f"{spans / beyond:,.0f} spans a CPU second beyond the start", flush=True)


def main(traces: int = 100_000) -> None:
    """Generate, import, print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"otlp-{number}.pb" for number in range(FILES)]
        spans = sum(write_otlp(file, traces // FILES, seed=100 + number) for number, file in enumerate(files))
        tiny = folder / "tiny.pb"
        write_otlp(tiny, 1)
        report("one process", files, spans, tiny, folder, ONE)
        report("Spark", files, spans, tiny, folder, SPARK)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
