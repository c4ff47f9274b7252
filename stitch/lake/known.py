"""Requests that are in the lake already: what an overlapping import must not double (I5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.lake import FLOWS_SCHEMA
from stitch.columnar.content import hash_rows
from stitch.lake.encoding import decode
from stitch.lake.manifest import LakeFile
from stitch.lake.store import Disk

B1 = npt.NDArray[np.bool_]

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

    def unchanged(self, flows: pa.Table) -> B1:
        """[flows] the lake holds the flow, of this id and kind, with the same content (but for the lane)."""
        wanted, names = flows["request_id"].combine_chunks(), _names(flows)
        same = np.zeros(flows.num_rows, dtype=np.bool_)
        for file in self._files:
            ids = self._read(file, ["request_id"])["request_id"]
            if not pc.any(pc.is_in(ids, value_set=wanted)).as_py():
                continue
            stored = self._read(file, _COMPARED)
            stored = stored.filter(pc.is_in(stored["request_id"], value_set=wanted))
            place = pc.index_in(_names(stored), value_set=names)
            stored = stored.filter(place.is_valid())
            place = place.drop_null().to_numpy()
            given = flows.select(_COMPARED).cast(stored.schema).take(pa.array(place))
            same[place[hash_rows(stored) == hash_rows(given)]] = True
        return same

    def _read(self, file: LakeFile, columns: list[str]) -> pa.Table:
        return decode("flows", self._disk.read(file.name), columns)


def _names(flows: pa.Table) -> pa.Array:
    """[flows] id and kind in one."""
    return pc.binary_join_element_wise(
        flows["kind"].cast(pa.string()), flows["request_id"], " "
    ).combine_chunks()


def rows_of(table: pa.Table, request_ids: pa.Array, *, keep: bool) -> pa.Table:
    """Rows of the requests given (`keep`), or of all others."""
    inside = pc.fill_null(pc.is_in(table["request_id"], value_set=request_ids), False)
    return table.filter(inside if keep else pc.invert(inside))
