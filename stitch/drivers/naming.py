"""Names the records that came without a request id, when input is too large for the kernel to see at once.

The kernel names them by the linked records of its batch (`stitch.records.components`); a batch here is a
bucket by request id, so the name must be known before. Only the columns that link records are held in memory:
bounded by the number of records *without* a request id (about 300 bytes each) and of those they touch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.events import SPAN_KIND_BASE
from stitch.columnar.chunks import whole
from stitch.drivers.stash import Stash
from stitch.records.components import assign_requests, flat_list

_LINKING = ["kind", "request_id", "breadcrumb", "id", "parents", "links"]


def touching(named: Iterator[pa.Table], loose: Stash) -> Iterator[pa.Table]:
    """Linking columns of those named records that share a breadcrumb or id with the loose. O(records)."""
    words = _words(loose)
    for events in named:
        records = events.select(_LINKING).filter(pc.less(events["kind"], SPAN_KIND_BASE))
        touches = np.zeros(records.num_rows, dtype=np.bool_)
        for name in ("breadcrumb", "id"):
            found = pc.is_in(whole(records[name]).cast(pa.string()), value_set=words, skip_nulls=True)
            touches |= found.to_numpy(zero_copy_only=False)
        for name in ("parents", "links"):
            row, word = flat_list(whole(records[name]))
            touches[row[pc.is_in(word.cast(pa.string()), value_set=words).to_numpy(zero_copy_only=False)]] = (
                True
            )
        if touches.any():
            yield records.filter(pa.array(touches))


def name_records(loose: Stash, touched: list[pa.Table]) -> Iterator[pa.Table]:
    """The loose batches again, each record with the request id that the kernel would give it."""
    columns = [batch.select(_LINKING) for batch in loose.batches()]
    requests = assign_requests(pa.concat_tables([*columns, *touched]).combine_chunks())
    start = 0
    for batch in loose.batches():
        codes = requests.code[start : start + batch.num_rows]
        start += batch.num_rows
        place = batch.schema.get_field_index("request_id")
        yield batch.set_column(place, batch.schema.field(place), requests.names.take(pa.array(codes)))


def _words(loose: Stash) -> pa.StringArray:
    """Every breadcrumb and id that the loose records name."""
    found = [pa.array([""], pa.string())]  # the breadcrumb of records that have none
    for batch in loose.batches():
        found += [whole(batch[name]).drop_null().cast(pa.string()) for name in ("breadcrumb", "id")]
        found += [flat_list(whole(batch[name]))[1].cast(pa.string()) for name in ("parents", "links")]
        found = [pc.unique(pa.concat_arrays(found))]
    return found[0]
