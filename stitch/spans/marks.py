"""Marks: allow-listed span events that become points inside their span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8, U8
from stitch.columnar.chunks import whole
from stitch.columnar.mixing import hash_word, mix
from stitch.spans.span_columns import Spans


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of a batch, sorted by (span, name, time): the order of their positions."""

    span: I8
    """[marks] row of the span, ascending."""
    name: I8
    """[marks] index into `names`."""
    ts_ns: I8
    """[marks] time, ns since the epoch."""
    names: tuple[str, ...]
    """Distinct names, sorted."""
    capped_flows: I8
    """Flows that had more marks than allowed."""

    def counts(self, n_spans: int) -> I8:
        """[spans] number of marks."""
        return np.bincount(self.span, minlength=n_spans)

    def hashes(self, n_spans: int) -> U8:
        """[spans] commutative hash of the names of the span's marks; 0 for none."""
        words = np.array([hash_word(name) for name in self.names], dtype=np.uint64)
        total = np.zeros(n_spans, dtype=np.uint64)
        np.add.at(total, self.span, mix(words ^ np.uint64(0x6D61726B))[self.name])
        return total


def read_marks(events: pa.Table, spans: Spans, max_marks_per_flow: int) -> Marks | None:
    """Marks of the spans, or None where no span has any.

    Marks without time or name are left out. Of a flow with more than `max_marks_per_flow` the first in time
    are kept. O(marks log marks).
    """
    lists = whole(events["marks"])
    values = pc.list_flatten(lists)
    if not len(values):
        return None
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    span_of_row = np.full(events.num_rows, -1, dtype=np.int64)
    span_of_row[spans.row] = np.arange(len(spans))
    span = np.repeat(span_of_row, lengths)
    times, words = pc.struct_field(values, "ts_ns"), pc.struct_field(values, "name")
    usable = (span >= 0) & pc.and_(times.is_valid(), words.is_valid()).to_numpy(zero_copy_only=False)
    encoded = pc.fill_null(words, "").dictionary_encode()
    ordered = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(ordered), dtype=np.int64)
    rank[ordered] = np.arange(len(ordered))
    name = rank[encoded.indices.to_numpy(zero_copy_only=False)][usable]
    ts_ns = pc.fill_null(times, 0).to_numpy(zero_copy_only=False)[usable]
    span = span[usable]
    names = tuple(encoded.dictionary.take(pa.array(ordered)).to_pylist())
    capped = np.zeros(0, np.int64)
    counts = np.bincount(spans.flow[span], minlength=spans.n_flows)
    if counts.max(initial=0) > max_marks_per_flow:
        capped = np.flatnonzero(counts > max_marks_per_flow)
        order = np.lexsort((span, name, ts_ns, spans.flow[span]))
        flow = spans.flow[span[order]]
        rank_in_flow = np.arange(len(order)) - (np.cumsum(counts) - counts)[flow]
        kept = order[rank_in_flow < max_marks_per_flow]
        span, name, ts_ns = span[kept], name[kept], ts_ns[kept]
    order = np.lexsort((ts_ns, name, span))
    return Marks(span[order], name[order], ts_ns[order], names, capped)
