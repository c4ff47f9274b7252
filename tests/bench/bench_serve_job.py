"""A comparison asked of `flowdiff serve` beside the command: 2 x 210 k requests of 30 nodes.

    PYTHONPATH=tests python tests/bench/bench_serve_job.py [LAKE]

In turns: the command, and the same question to a server that has not answered it yet, from the question to
the report; then the same question again, which has its answer. CPU of the job is that of its process. LAKE:
one that is there already.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fixtures.served_site import serving
from fixtures.timed_command import timed
from oracles.faulty_flows import slow_plans
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake

REQUESTS = 210_000
CATEGORIES = 1_600
NODES = 30
FAULTS = 20
REFERENCE, PROBLEM = "1970-01-01T00:00/5m", "1970-01-01T00:05/5m"
TURNS = 3
POLL_S = 0.1


class Asked(NamedTuple):
    """What a question to a server took."""

    wall_s: float
    again_s: tuple[float, ...]
    """The same question again, each time."""
    cpu_s: float
    """Of the job's process, but for its last POLL_S."""


def made(lake: Path) -> None:
    flows, structures = stored_spans(1, 2 * REQUESTS, CATEGORIES, NODES // 2)
    flows, params = slow_plans(flows, NODES, FAULTS)
    write_lake(lake, flows, structures, params=params)


def job_cpu_s(server: int) -> float | None:
    """CPU seconds of the job that a server runs; None without one."""
    tasks = Path(f"/proc/{server}/task").glob("*/children")
    for child in " ".join(task.read_text() for task in tasks).split():
        process = Path(f"/proc/{child}")
        if b"flowdiff.serve.jobs.process" in (process / "cmdline").read_bytes():
            ticks = (process / "stat").read_text().rpartition(")")[2].split()
            return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
    return None


def asked(lake: str) -> Asked:
    with serving(lake) as server:
        server.get("/compare")
        began = time.perf_counter()
        moved = server.post("/compare", {"method": "robust", "reference": REFERENCE, "problem": PROBLEM})
        assert moved.status == 303, moved.text
        path, cpu_s = moved.headers["location"], 0.0
        while "<h1>Computing" in (page := server.get(path)).text:
            assert page.status == 200, page.text
            with suppress(OSError):  # it has just ended
                cpu_s = job_cpu_s(server.process.pid) or cpu_s
            time.sleep(POLL_S)
        wall_s = time.perf_counter() - began
        assert 'id="f1"' in page.text, page.text
        again_s = []
        for _ in range(2):
            began = time.perf_counter()
            assert server.get(path).status == 200
            again_s.append(time.perf_counter() - began)
        return Asked(wall_s, tuple(again_s), cpu_s)


def main(lake: str) -> None:
    for _ in range(TURNS):
        command = timed(
            *("compare", "--lake", lake, "--reference", REFERENCE, "--problem", PROBLEM, "--no-save"),
            codes=(0, 1, 3),
        )
        job = asked(lake)
        again = ", ".join(f"{each * 1e3:.0f}" for each in job.again_s)
        print(
            f"command {command}; job {job.wall_s:.2f} s wall, {job.cpu_s:.2f} s CPU,"
            f" {job.wall_s - command.wall_s:+.2f} s wall; kept answer {again} ms",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with TemporaryDirectory() as folder:
            made(Path(folder) / "lake")
            main(str(Path(folder) / "lake"))
