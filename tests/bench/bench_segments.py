"""Cost of comparing systems rich in attributes; `make bench`, or python tests/bench/bench_segments.py [CASE]

Payloads are those of `evaluation.segments`, with calls that a request makes or does not: so its requests
scatter over thousands of call graphs, of twenty spans and 15 to 30 attributes each. Measured is the whole
command as a process, from the lake to the written report:

* history: 9,311 requests with 50 one-minute windows of history among them, 20 services;
* services: 33,000 requests of 120 services;
* attributes: 2 x 210,000 requests of 30 nodes with eight attributes each, segments on and off in turns.
"""

from __future__ import annotations

import argparse
import io
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from evaluation.segments.described import ROOTS, Call, Scenario, System, system_of
from evaluation.segments.played import Playing
from evaluation.segments.recorded import T0
from evaluation.store import fingerprint
from fixtures.timed_command import Took, timed
from oracles.quiet_import import Quiet
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake

from schemas.lake import PARAMS_SCHEMA, SPANS
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

ROOT: Final = Path(__file__).resolve().parents[2]
OPTIONAL: Final = 8
"""Calls of a root type that half of its requests make, each by itself."""
ALWAYS: Final = 6
"""Calls that all of them make, beside those of the evaluation."""
SEED: Final = {20: 0, 120: 3}
"""Seeds of the evaluation's systems, by number of services."""
REQUESTS: Final = 210_000
CATEGORIES: Final = 1_600
NODES: Final = 30
VALUES: Final = (2, 3, 4, 5, 8, 13, 21, 40)
"""Distinct values of the attributes."""
KEYS: Final = len(VALUES)
TURNS: Final = 3


def scattered(services: int) -> System:
    """Give a system whose root types have a call graph for each set of optional calls."""
    system = system_of(SEED[services])
    rng = np.random.default_rng([services, 4])

    def call(at: int) -> Call:
        name = str(rng.choice(system.services[3:]))
        below = (Call(name, f"read-{at}", 3.0),) if at % 3 == 0 else ()
        return Call(name, f"call-{at}", float(rng.uniform(2, 6)), below)

    roots = []
    for root in system.roots:
        always = tuple(call(at) for at in range(ALWAYS))
        optional = tuple(call(ALWAYS + at) for at in range(OPTIONAL))
        for made in range(1 << OPTIONAL):
            chosen = tuple(one for at, one in enumerate(optional) if made >> at & 1)
            roots.append(Call(root.service, root.operation, root.ms, (*root.calls, *always, *chosen)))
    assert len(roots) == ROOTS << OPTIONAL
    return System(system.seed, system.services, tuple(roots), system.tested)


def recorded(name: str, services: int, windows: int, requests: int) -> Path:
    """Give a lake of one-minute windows with so many requests in all, kept while its sources are the same."""
    sources = ("tests/bench/bench_segments.py", "tests/evaluation/segments", "schemas", "ingest", "stitch")
    lake = ROOT / ".cache" / "bench" / f"{fingerprint(ROOT, sources)}-{name}"
    if lake.is_dir():
        return lake
    part = lake.with_name(f".{lake.name}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    system, files = scattered(services), []
    for at in range(windows):
        n = requests * (at + 1) // windows - requests * at // windows
        playing = Playing(system, Scenario("quiet"), at, T0 + at * NS_PER_MINUTE, n, NS_PER_MINUTE)
        files.append(part / f"{at:02}.jsonl")
        files[-1].write_text("".join(f"{line}\n" for line in playing.lines()), encoding="utf-8")
    import_into(
        part / "lake",
        [str(file) for file in files],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="bench",
        created_by="bench",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )
    (part / "lake").rename(lake)
    shutil.rmtree(part)
    return lake


def period(first: int, n: int) -> str:
    """Give n one-minute windows as an ISO range."""
    sides = ((T0 + at * NS_PER_MINUTE) // NS_PER_SECOND for at in (first, first + n))
    return "/".join(f"{datetime.fromtimestamp(side, UTC):%Y-%m-%dT%H:%M:%SZ}" for side in sides)


def compared(lake: Path, *words: str) -> Took:
    """Run the command."""
    return timed("compare", "--lake", str(lake), "--no-save", *words, codes=(0, 1, 3))


def history() -> None:
    """Two windows, and fifty before them as history."""
    lake = recorded("history", 20, 52, 9_311)
    words = ("--reference", period(50, 1), "--problem", period(51, 1), "--history", period(0, 50))
    print(f"9,311 requests with 50 windows of history: {compared(lake, *words)}", flush=True)


def services() -> None:
    """Ten windows, the first five against the others."""
    lake = recorded("services", 120, 10, 33_000)
    took = compared(lake, "--reference", period(0, 5), "--problem", period(5, 5))
    print(f"33,000 requests of 120 services: {took}", flush=True)


def attributes() -> None:
    """Segments of eight attributes, and without them."""
    lake = ROOT / ".cache" / "bench" / f"{fingerprint(ROOT, ('tests/bench/bench_segments.py',))}-attributes"
    if not lake.is_dir():
        lake.parent.mkdir(parents=True, exist_ok=True)
        flows, structures = stored_spans(1, 2 * REQUESTS, CATEGORIES, NODES // 2)
        kinds = pa.array([SPANS] * flows.num_rows).dictionary_encode()  # else no attribute is of these flows
        flows = flows.set_column(flows.column_names.index("kind"), "kind", kinds)
        write_lake(lake, flows, structures, params=eight(flows))
    words = ("--reference", "1970-01-01T00:00/5m", "--problem", "1970-01-01T00:05/5m")
    off = ("--set", "robust.segments.most=0")
    took = [(compared(lake, *words, *off), compared(lake, *words)) for _ in range(TURNS)]
    without, with_ = (min(one.cpu_s for one in turns) for turns in zip(*took, strict=True))
    print(
        f"2 x {REQUESTS:,} requests: {without:.2f} s CPU without segments, {with_:.2f} s with those of {KEYS}"
        f" attributes, {with_ / without - 1:+.1%}",
        flush=True,
    )


def eight(flows: pa.Table) -> pa.Table:
    """Give each flow eight attributes, drawn apart."""
    n, rng = flows.num_rows, np.random.default_rng(8)
    first = np.cumsum([0, *VALUES[:-1]])
    words = pa.array([f"v{value}" for size in VALUES for value in range(size)])
    value = np.stack([rng.integers(size, size=n) + base for base, size in zip(first, VALUES, strict=True)])
    rows = pa.array(np.repeat(np.arange(n), KEYS))
    table = pa.table(
        {
            "request_id": flows["request_id"].take(rows),
            "kind": flows["kind"].take(rows),
            "position": pa.array(np.zeros(n * KEYS, np.int32)),
            "key": pa.array([f"key.{at}" for at in range(KEYS)]).take(pa.array(np.tile(np.arange(KEYS), n))),
            "num": pa.nulls(n * KEYS, pa.float64()),
            "text": words.take(pa.array(value.T.ravel())),
        }
    )
    return table.cast(PARAMS_SCHEMA)


CASES: Final = {"history": history, "services": services, "attributes": attributes}


def main() -> None:
    """Measure what is asked for, or all."""
    parser = argparse.ArgumentParser(prog="bench_segments", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    for name in parser.parse_args().cases or CASES:
        CASES[name]()


if __name__ == "__main__":
    main()
