"""Time every SQL query of docs/recipes.md on a lake of 1.6 M spans: 50,000 simulated requests.

Run: `python tests/bench/bench_recipes.py [LAKE]`; without LAKE it is made, in half a minute. Each query
has a session of its own and so verifies the files it reads; the start of the process is not counted.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa

import flowdiff
from analyze.scope import resolve
from analyze.sql.session import open_session
from schemas.periods import parse_period

REPOSITORY = Path(__file__).resolve().parents[2]
QUERIES = r"^## (\d+)\. ([^\n]*).*?^```sql\n(.*?)^```"


def make(lake: Path) -> None:
    """Two days of 25,000 requests; every span names the version of its service."""
    host = '{"key":"host.name"'
    for day, version in ((5, "v1"), (6, "v2")):
        told = lake.parent / f"{version}.jsonl"
        flowdiff.simulate(
            told,
            workload="postmark-large",
            requests=25_000,
            seed=day,
            start=f"2026-01-0{day}T00:00:00Z",
            format="otlp-json",
        )
        named = f'{{"key":"service.version","value":{{"stringValue":"{version}"}}}},{host}'
        told.write_text(told.read_text().replace(host, named))
        flowdiff.open(lake).import_(told)
        told.unlink()


def main(lake: Path) -> None:
    """Print CPU and wall seconds of every query."""
    found = resolve(parse_period("all", now_ns=0), default_lake=str(lake))
    starts = (
        flowdiff.open(lake)
        .sql("SELECT min(started_at) AS began FROM requests GROUP BY version ORDER BY began")
        .arrow()
    )
    deployments = pa.table({"at": starts["began"], "version": ["v1", "v2"]})
    for number, title, text in re.findall(
        QUERIES, (REPOSITORY / "docs/recipes.md").read_text(), re.MULTILINE | re.DOTALL
    ):
        cpu, wall = time.process_time(), time.perf_counter()
        with open_session(found, attached={"deployments": deployments}) as session:
            rows = session.query(text, {"component": "nfs"} if ":component" in text else ()).num_rows
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(f"{number:>2} {title:55} {cpu:5.2f} s CPU {wall:6.2f} s {rows:,} rows", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder) / "lake")
            main(Path(folder) / "lake")
