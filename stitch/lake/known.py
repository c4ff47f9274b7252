"""Look up requests that the lake already has, so that overlapping imports do not store them twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1
from schemas.lake import FLOWS_SCHEMA
from stitch.columnar.hashing import hash_rows
from stitch.lake.manifest import LakeFile, Manifest
from stitch.lake.windowing import flow_names, starts_of

_COMPARED = [name for name in FLOWS_SCHEMA.names if name != "lane"]


class KnownRequests:
    """Lookup of request ids in the lake's flows, which reads only the windows that may contain them.

    Searches the windows of the given events, windows at most `reach_ns` away, and earlier ones with a request
    that lasted until then. A request in two imports, the later part first and more than `reach_ns` apart, is
    not recognised; `flowdiff fsck` reports it as stored twice.

    Memory: the ids of one file at a time, and the flows that match.
    """

    def __init__(self, manifest: Manifest, ts_ns: pa.ChunkedArray, reach_ns: int) -> None:
        """ts_ns: times of the events whose requests will be looked up."""
        self._manifest = manifest
        self._files: list[LakeFile] = []
        if manifest.listing.num_rows:
            starts = starts_of(ts_ns, manifest.info.window_length_ns)
            self._files = manifest.files_near(starts, reach_ns)

    def __bool__(self) -> bool:
        """True if the lake has any file that may contain the requests."""
        return bool(self._files)

    def among(self, request_ids: pa.Array) -> pa.Array:
        """Request ids in `request_ids` that the lake has, each once."""
        found = [
            ids.filter(pc.is_in(ids, value_set=request_ids)).combine_chunks()
            for ids in (self._manifest.decoded(file, ["request_id"])["request_id"] for file in self._files)
        ]
        return pa.chunked_array([pa.chunked_array(found, pa.string()).unique()], pa.string()).combine_chunks()

    def flows(self, request_ids: pa.Array) -> pa.Table:
        """Flows (FLOWS_SCHEMA) of the requests `request_ids` in the lake, from every lane."""
        found = [FLOWS_SCHEMA.empty_table(), *self._stored(request_ids, FLOWS_SCHEMA.names)]
        return pa.concat_tables(found).unify_dictionaries().combine_chunks()

    def _stored(self, request_ids: pa.Array, columns: list[str]) -> Iterator[pa.Table]:
        """Yield the given columns of the flows of the requests `request_ids` in the lake, file by file."""
        for file in self._files:
            ids = self._manifest.decoded(file, ["request_id"])["request_id"]
            if pc.any(pc.is_in(ids, value_set=request_ids)).as_py():
                stored = self._manifest.decoded(file, columns)
                yield stored.filter(pc.is_in(stored["request_id"], value_set=request_ids))

    def unchanged(self, flows: pa.Table) -> B1:
        """[flows] True if the lake has a flow with the same id and kind that is equal in all columns except
        the lane."""
        wanted, names = flows["request_id"].combine_chunks(), flow_names(flows)
        same = np.zeros(flows.num_rows, dtype=np.bool_)
        for stored in self._stored(wanted, _COMPARED):
            place = pc.index_in(flow_names(stored), value_set=names)
            known = stored.filter(place.is_valid())
            place = place.drop_null().to_numpy()
            given = flows.select(_COMPARED).cast(known.schema).take(pa.array(place))
            same[place[hash_rows(known) == hash_rows(given)]] = True
        return same


def rows_of(table: pa.Table, request_ids: pa.Array, *, keep: bool) -> pa.Table:
    """Rows of a table whose request is in `request_ids` (keep=True), or all other rows (keep=False)."""
    inside = pc.fill_null(pc.is_in(table["request_id"], value_set=request_ids), False)
    return table.filter(inside if keep else pc.invert(inside))
