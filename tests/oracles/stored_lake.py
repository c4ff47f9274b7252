"""A lake on disk made from tables, for benchmarks that do not want to import."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import CommitBody, Counters
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, STRUCTURES_SCHEMA
from schemas.windows import NS_PER_MINUTE
from stitch.lake.lane import Lane
from stitch.lake.layout import ensure_lake
from stitch.lake.store import LocalStore
from stitch.lake.windowing import cut


def write_lake(
    folder: Path,
    flows: pa.Table,
    structures: pa.Table,
    window_ns: int = 5 * NS_PER_MINUTE,
    params: pa.Table | None = None,
) -> None:
    """Write flows (FLOWS_SCHEMA, any order), structures and params as one commit of a new lake."""
    folder.mkdir()
    store = LocalStore.at(folder)
    order = [("root", "ascending"), ("category", "ascending"), ("start_ns", "ascending")]
    plain = pa.table(
        {n: flows[n].cast(pa.string()) if n in ("root", "category") else flows[n] for n, _ in order}
    )
    ordered = flows.select(FLOWS_SCHEMA.names).take(pc.sort_indices(plain, sort_keys=order))
    info = ensure_lake(store, window_ns, window_ns, "bench")
    lane = Lane(store, info, owner="bench", created_by="bench")
    told = PARAMS_SCHEMA.empty_table() if params is None else params
    parts = cut(ordered.cast(FLOWS_SCHEMA), structures.cast(STRUCTURES_SCHEMA), told, window_ns)
    with lane.stage() as staging:
        for part in parts:
            staging.add_window("flows", part.window, 0, part.flows)
            staging.add_window("structures", part.window, 0, part.structures)
            if part.params.num_rows:
                staging.add_window("params", part.window, 0, part.params)
        counters = Counters(flows=flows.num_rows)
        lane.commit(staging, CommitBody(kind="import", counters=counters))
