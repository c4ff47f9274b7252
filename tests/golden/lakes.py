"""The lakes of the golden comparisons: simulated from a seed, and imported from `tests/data`.

They are made by the command line, once, and kept under `.cache/golden` for as long as the sources that make
them are the same. Who needs a lake that another process makes waits for it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluation.store import fingerprint
from evaluation.systems.described import SYSTEMS
from evaluation.systems.recorded import record

UNUSED_S = 86_400.0
"""Seconds after which lakes of other sources are removed."""
MAKERS = ("schemas", "ingest", "stitch", "tests/golden/lakes.py", "tests/evaluation/systems")
REQUESTS = "1200"
"""Of a simulated run: enough for the published faults to be found."""
WORKLOADS = {
    "sfs97": (
        *("N1", "F5-spin", "F5-spin-broad", "F8", "F9", "F11", "F13", "F14"),
        *("N2", "N3", "N4", "N5", "N6", "F12", "N1", "N1", "N1"),
    ),
    "postmark-large": ("N1", "F1", "F15", "F4"),
    "linux-build": ("N1", "F3", "F7", "F10"),
    "postmark-large-spans": ("N1", "F1"),
    "iozone": ("N1", "F2"),
    "ursa-minor-build": ("N1", "F6"),
}
"""Workload, `-spans` where it is recorded as spans -> the fault of each run; the n-th is simulated with seed
n + 1, on its own day."""
IMPORTED = {
    "boutique": ("online-boutique", ("before", "after-recommendation-delay", "after-frontend-return")),
    "shop": ("faults", ("online-boutique",)),
    "tickets": ("faults", ("train-ticket",)),
}
"""Lake -> folder of `tests/data` and the beginnings of its files."""

Command = Callable[..., tuple[int, str]]
"""Runs `flowdiff` with arguments: exit code, and what it printed."""


def lake_of(name: str, root: Path, flowdiff: Command) -> Path:
    """The kept lake, made where it is missing or older than its makers."""
    kept = root / ".cache" / "golden" / fingerprint(root, MAKERS)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with _alone(kept.parent / ".lock"):
        if not kept.is_dir():
            # Another process may still make or read what it began with before the sources changed.
            unused_since = time.time() - UNUSED_S
            for older in kept.parent.glob("[!.]*"):
                if older.stat().st_mtime < unused_since:
                    shutil.rmtree(older)
            kept.mkdir()
        os.utime(kept)
    lake = kept / name
    with _alone(kept / f".{name}.lock"):
        if not lake.is_dir():
            _make(name, lake, root, flowdiff)
    return lake


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(name: str, lake: Path, root: Path, flowdiff: Command) -> None:
    part = lake.with_name(f".{name}-{os.getpid()}")
    part.mkdir()
    if name in WORKLOADS:
        files = _simulate(name, part, flowdiff)
    elif made := [system for system in SYSTEMS if system.name == name]:
        record(part / "made", systems=made)
        files = list((part / "made").glob("*.jsonl"))
    else:
        folder, names = IMPORTED[name]
        files = [path for one in names for path in (root / "tests" / "data" / folder).glob(f"{one}.*")]
    code, said = flowdiff("import", *files, "--lake", part / "lake", "--window", "1m")
    assert code == 0, said
    (part / "lake").rename(lake)
    shutil.rmtree(part)


def _simulate(workload: str, folder: Path, flowdiff: Command) -> list[Path]:
    files, form = [], "otlp-json" if workload.endswith("-spans") else "native"
    for number, fault in enumerate(WORKLOADS[workload]):
        files.append(folder / f"{number}.ndjson")
        run = (
            "--workload",
            workload.removesuffix("-spans"),
            "--format",
            form,
            "--fault",
            fault,
            "--seed",
            number + 1,
            "--requests",
            REQUESTS,
        )
        day = f"2026-01-{5 + number:02}T00:00:00Z"
        code, said = flowdiff("simulate", *run, "--workers", 1, "--start", day, "--out", files[-1])
        assert code == 0, said
    return files
