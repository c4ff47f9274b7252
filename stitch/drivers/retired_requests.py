"""Refuse requests that began in windows which `flowdiff retain` took out of the lake.

No reader would ever see them, and a sweep would remove them: they are refused, whole and with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1
from schemas.commits import Counters
from schemas.config import StitchConfig
from schemas.errors import InputError
from schemas.events import SPAN_KIND_BASE
from schemas.rejects import Reason
from schemas.windows import Window
from stitch.drivers.inputs import Source
from stitch.kernel import stitch
from stitch.lake.known import rows_of
from stitch.structures import StructureMemo

RETIRED_DETAIL: Final = "its request began in a window that `flowdiff retain` took out of the lake"


def of_retired(events: pa.Table, retired_to_ns: int, config: StitchConfig, memo: StructureMemo) -> B1:
    """[events] those of flows that start before `retired_to_ns`. `events`: whole requests, each with its id.

    Only requests with an event of that time are stitched for it.
    """
    old = pc.fill_null(pc.less(events["ts_ns"], retired_to_ns), True)
    none: B1 = np.zeros(events.num_rows, dtype=np.bool_)
    if not pc.any(old).as_py():
        return none
    ids = pc.unique(events["request_id"].filter(old)).drop_null()
    flows = stitch(rows_of(events, ids, keep=True), config, memo=memo).flows
    flows = flows.filter(pc.less(flows["start_ns"], retired_to_ns))
    is_span = pc.greater_equal(events["kind"], SPAN_KIND_BASE).to_numpy()
    found = none
    for kind, own in (("spans", is_span), ("records", ~is_span)):
        gone = flows["request_id"].filter(pc.equal(flows["kind"].cast(pa.string()), kind))
        inside = pc.is_in(
            events["request_id"], value_set=gone.cast(events["request_id"].type).combine_chunks()
        )
        found |= own & inside.to_numpy()
    return found


def refuse_all_retired(
    counters: Counters, sources: Sequence[Source], retired_to_ns: int | None, window_length_ns: int
) -> None:
    """Refuse an import of which nothing is left: its files do not count as known. Raises InputError."""
    retired = counters.rejects.get(Reason.RETIRED.value, 0)
    if not retired or retired_to_ns is None:
        return
    if counters.flows + counters.flows_late + counters.flows_duplicate:
        return
    what = f"'{sources[0].name}'" if len(sources) == 1 else f"the {len(sources):,} files"
    last = Window(retired_to_ns - window_length_ns, window_length_ns).name
    raise InputError(
        f"All requests of {what} began in windows that were retired from this lake, {last} and before.",
        remedy="Nothing was imported. Import them into a lake of their own, with another --lake.",
    )
