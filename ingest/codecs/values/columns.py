"""Decompose and build columns of lists and of booleans."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.events import EVENT_SCHEMA


def mask(column: pa.Array) -> B1:
    """Convert a boolean column to numpy; null becomes False."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_)


def ragged(column: pa.Array) -> tuple[I8, pa.Array]:
    """Decompose a list column: ([rows] length of the list, 0 for null; concatenated values)."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return lengths, column.flatten()


def owners(lengths: I8) -> I8:
    """[values] row to which each value of a list column belongs, from the list lengths."""
    return np.repeat(np.arange(len(lengths)), lengths)


def list_column(lengths: I8, values: pa.Array, missing: B1 | None = None) -> pa.Array:
    """Build a list column from list lengths and concatenated values; null where `missing` is True, by default
    where the list is empty."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    missing = lengths == 0 if missing is None else missing
    return pa.ListArray.from_arrays(
        pa.array(offsets), values, mask=pa.array(missing) if missing.any() else None
    )


def event_table(columns: Mapping[str, pa.Array], n: int, schema: pa.Schema = EVENT_SCHEMA) -> pa.Table:
    """Build a table of `n` events from columns by name; the other columns of the schema are null."""
    given = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in schema]
    return pa.table(given, schema=schema)
