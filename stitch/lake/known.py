"""Requests that are in the lake already: what an overlapping import must not double (I5)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from schemas.lake import FLOWS_SCHEMA
from stitch.columnar.content import hash_rows
from stitch.lake.encoding import decode
from stitch.lake.manifest import LakeFile
from stitch.lake.store import Disk

_COMPARED = [name for name in FLOWS_SCHEMA.names if name != "lane"]


class KnownRequests:
    """Looks request ids up in the lake's flows. Every look-up reads the id column of all files: O(lake).

    Memory: the ids of one file at a time, and the flows that are asked for.
    """

    def __init__(self, disk: Disk, files: list[LakeFile]) -> None:
        """`files` are the visible files of the table flows."""
        self._disk = disk
        self._files = files

    def __bool__(self) -> bool:
        """Whether there is anything to look up."""
        return bool(self._files)

    def among(self, request_ids: pa.Array) -> pa.Array:
        """Those of the ids that the lake has, without repetition."""
        found = [
            ids.filter(pc.is_in(ids, value_set=request_ids)).combine_chunks()
            for ids in (self._read(file, ["request_id"])["request_id"] for file in self._files)
        ]
        return pa.chunked_array([pa.chunked_array(found, pa.string()).unique()], pa.string()).combine_chunks()

    def unchanged(self, flows: pa.Table) -> pa.Array:
        """Ids of the given flows that the lake holds with the same content (all columns but the lane)."""
        wanted = flows["request_id"].combine_chunks()
        same: list[pa.Array] = []
        for file in self._files:
            ids = self._read(file, ["request_id"])["request_id"]
            if not pc.any(pc.is_in(ids, value_set=wanted)).as_py():
                continue
            stored = self._read(file, _COMPARED)
            stored = stored.filter(pc.is_in(stored["request_id"], value_set=wanted))
            given = flows.select(_COMPARED).cast(stored.schema)
            given = given.take(pc.index_in(stored["request_id"], value_set=wanted).combine_chunks())
            equal = pa.array(hash_rows(stored) == hash_rows(given), pa.bool_())
            same.append(stored["request_id"].filter(equal).combine_chunks())
        return pa.chunked_array(same, pa.string()).combine_chunks()

    def _read(self, file: LakeFile, columns: list[str]) -> pa.Table:
        return decode("flows", self._disk.read(file.name), columns)


def rows_of(table: pa.Table, request_ids: pa.Array, *, keep: bool) -> pa.Table:
    """Rows of the requests given (`keep`), or of all others."""
    inside = pc.fill_null(pc.is_in(table["request_id"], value_set=request_ids), False)
    return table.filter(inside if keep else pc.invert(inside))
