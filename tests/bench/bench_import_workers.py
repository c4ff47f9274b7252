"""Benchmark of `flowdiff import --workers 1` and `2` on two idle cores, whole process, in turns.

Run: `python tests/bench/bench_import_workers.py [SCALE …] [--base COMMIT]` (1 is 1.0 M spans of OTLP
protobuf, of 48 a trace, in four files; by default 1 and 4.75). `--base`: an earlier commit beside it, from a
worktree that is made for it. Says how many cores a run kept busy (CPU over wall), the gain of the second
worker, and whether the lakes are equal, byte by byte.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from bench.bench_import import REPOSITORY, import_cost
from oracles.traffic import SPANS_PER_MESSAGE, otlp_messages

TRACES, SPANS, FILES = 20_833, 48, 4


def write_files(folder: Path, n_traces: int) -> list[Path]:
    """Write the messages of a run one after the other, a fourth to a file."""
    files = [folder / f"{number}.pb" for number in range(FILES)]
    a_file = -(-n_traces * SPANS // (SPANS_PER_MESSAGE * FILES))
    open_files = [file.open("wb") for file in files]
    for number, message in enumerate(otlp_messages(n_traces, spans=SPANS)):
        open_files[min(number // a_file, FILES - 1)].write(len(message).to_bytes(4, "big") + message)
    for file in open_files:
        file.close()
    return files


def content(lake: Path) -> dict[str, str]:
    """Hash of every file of the lake but for that which says who made it, and when."""
    files = (file for file in lake.rglob("*.parquet") if file.is_file())
    return {str(file.relative_to(lake)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def measure(scale: float, folder: Path, base: Path | None, repeats: int) -> None:
    """Print wall, CPU and rates of one size."""
    n_traces = int(TRACES * scale)
    files = write_files(folder, n_traces)
    runs = {"--workers 1": (REPOSITORY, "1"), "--workers 2": (REPOSITORY, "2")}
    if base is not None:
        runs = {"base, --workers 1": (base, "1"), "base, --workers 2": (base, "2"), **runs}
    for repository in {repository for repository, _ in runs.values()}:
        import_cost(files[:1], folder / f"compiled-{repository.name}", repository=repository)
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, (repository, workers) in runs.items():
            lake = folder / name.replace(" ", "")
            shutil.rmtree(lake, ignore_errors=True)
            costs[name].append(import_cost(files, lake, "--workers", workers, repository=repository))
    walls = {name: median(wall for wall, _ in own) for name, own in costs.items()}
    print(f"{n_traces * SPANS:,} spans, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB")
    for name, own in costs.items():
        cpu = median(each for _, each in own)
        shown = ", ".join(f"{wall:.2f}" for wall, _ in own)
        rate, busy = n_traces * SPANS / walls[name], cpu / walls[name]
        print(
            f"  {name:18} {walls[name]:6.2f} s wall ({shown}), {cpu:6.2f} s CPU, {busy:.2f} cores, "
            f"{rate:,.0f}/s"
        )
    gain = walls["--workers 1"] / walls["--workers 2"]
    equal = content(folder / "--workers1") == content(folder / "--workers2")
    print(f"  second worker: {gain:.2f} x; lakes {'equal' if equal else 'DIFFER'}", flush=True)


def main() -> None:
    """Measure each size, and the base beside it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scale", nargs="*", type=float, default=[1.0, 4.75])
    parser.add_argument("--base", help="commit to measure beside it")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        base = None
        if chosen.base is not None:
            base = Path(name) / "base"
            git = ("git", "-C", str(REPOSITORY), "worktree")
            subprocess.run([*git, "add", "--quiet", "--detach", str(base), chosen.base], check=True)
        try:
            for scale in chosen.scale:
                folder = Path(name) / f"{scale}"
                folder.mkdir()
                measure(scale, folder, base, chosen.repeats)
                shutil.rmtree(folder)
        finally:
            if base is not None:
                subprocess.run([*git, "remove", "--force", str(base)], check=True)


if __name__ == "__main__":
    main()
