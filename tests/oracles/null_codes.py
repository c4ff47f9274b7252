"""Codes under nulls of dictionary columns that lie outside of their dictionary: Arrow reads memory of others
by them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa


def stray_codes(array: pa.Array | pa.ChunkedArray, path: str) -> Iterator[str]:
    """Yield the path of each dictionary array in a column with a code that is no place of a word."""
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            yield from stray_codes(chunk, path)
    elif pa.types.is_dictionary(array.type):
        codes = array.indices
        raw = np.frombuffer(codes.buffers()[1], codes.type.to_pandas_dtype())[codes.offset :][: len(codes)]
        if ((raw < 0) | (raw >= max(1, len(array.dictionary)))).any():
            yield path
    elif pa.types.is_list(array.type):
        yield from stray_codes(array.values, f"{path}[]")
    elif pa.types.is_struct(array.type):
        for place, field in enumerate(array.type):
            yield from stray_codes(array.field(place), f"{path}.{field.name}")
