"""Time every SQL query of docs/internals/recipes.md on a lake of 1.6 M spans: 50,000 simulated requests.

Run: `python tests/bench/bench_recipes.py [LAKE]`; without LAKE it is made, in a minute of CPU. Each query
has a session of its own and so verifies the files it reads; the start of the process is not counted.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
from fixtures.recipes_lake import DAYS, fill

import flowdiff
from analyze.scope import resolve
from analyze.sql.session import open_session
from flowdiff.query_comparisons import QueryComparisons
from schemas.periods import parse_period

REPOSITORY = Path(__file__).resolve().parents[2]
QUERIES = r"^## (\d+)\. ([^\n]*).*?^```sql\n(.*?)^```"


def make(lake: flowdiff.Lake) -> None:
    """Two days of 25,000 requests, and a report."""
    fill(lake, 25_000, Path(lake.name).parent)
    lake.compare(*(day for day, _, _ in DAYS)).keep()


def main(lake: Path) -> None:
    """Print CPU and wall seconds of every query."""
    found = resolve(parse_period("all", now_ns=0), default_lake=str(lake))
    at = [datetime.fromisoformat(day) for day, _, _ in DAYS]
    deployments = pa.table({"at": at, "version": [version for _, version, _ in DAYS]})
    for number, title, text in re.findall(
        QUERIES, (REPOSITORY / "docs/internals/recipes.md").read_text(), re.MULTILINE | re.DOTALL
    ):
        cpu, wall = time.process_time(), time.perf_counter()
        comparing = QueryComparisons(str(lake), 0)
        with open_session(found, attached={"deployments": deployments}, comparing=comparing) as session:
            rows = session.query(text, {"component": "nfs"} if ":component" in text else ()).num_rows
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(f"{number:>2} {title:55} {cpu:5.2f} s CPU {wall:6.2f} s {rows:,} rows", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            make(flowdiff.open(f"{folder}/lake", create=True))
            main(Path(folder) / "lake")
