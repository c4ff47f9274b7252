"""Structures for views: every window folder has its own, so each category is taken once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from analyze.scope import LakePeriod
from schemas.lake import STRUCTURES_SCHEMA
from stitch.lake.reading import read_structures
from stitch.readings import readings_of


def read_structures_once(found: LakePeriod, paths: Sequence[Path]) -> pa.Table:
    """STRUCTURES_SCHEMA, each category of some files once. Memory: those, and one file. Raises LakeError."""
    known = pa.array([], pa.string())
    parts = [STRUCTURES_SCHEMA.empty_table()]
    for path in paths:
        rows = read_structures(path, lake=found.lake, name=found.name_of(path))
        new = rows.filter(pc.invert(pc.is_in(rows["category"], value_set=known)))
        if new.num_rows:
            parts.append(new)
            known = pa.concat_arrays([known, new["category"].combine_chunks()])
    return pa.concat_tables(parts)


def read_readings(found: LakePeriod, paths: Sequence[Path]) -> pa.Table:
    """READINGS_SCHEMA of each category of some files; 10 µs a node. Raises LakeError."""
    return readings_of(read_structures_once(found, paths))
