"""Memory and CPU of a comparison by `--memory`; `make bench`, or tests/bench/bench_memory.py [REQUESTS]

Requests of 30 nodes and 1,600 categories, half of them in either of two windows, without attributes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from evaluation.store import fingerprint
from fixtures.timed_command import timed
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake

ROOT: Final = Path(__file__).resolve().parents[2]
REQUESTS: Final = 420_000
CATEGORIES: Final = 1_600
NODES: Final = 30
LIMITS: Final = ("", "1GB", "512MB", "432MB")
"""Memory; empty: as much as it takes."""


def main() -> None:
    """Measure each limit once."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    sources = ("tests/bench/bench_memory.py", "stitch", "schemas")
    lake = ROOT / ".cache" / "bench" / f"{fingerprint(ROOT, sources)}-memory-{requests}"
    if not lake.is_dir():
        lake.parent.mkdir(parents=True, exist_ok=True)
        write_lake(lake, *stored_spans(1, requests, CATEGORIES, NODES // 2))
    words = ("--reference", "1970-01-01T00:00/5m", "--problem", "1970-01-01T00:05/5m")
    for limit in LIMITS:
        option = ("--memory", limit) if limit else ()
        took = timed("compare", "--lake", str(lake), "--no-save", *words, *option, codes=(0, 1, 3))
        print(f"{requests:,} requests, {limit or 'no limit'}: {took}", flush=True)


if __name__ == "__main__":
    main()
