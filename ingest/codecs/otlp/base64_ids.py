"""Read ids in base64, as protobuf's own JSON printers write them; OTLP JSON itself writes hex.

The two are told apart by the padding: `=` is no hex digit.
"""

from __future__ import annotations

import base64
import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.ids import binary_parts, fixed_values

_FORMS: Final = ((16, "^[A-Za-z0-9+/_-]{22}==$"), (8, "^[A-Za-z0-9+/_-]{11}=$"))
"""Bytes of an id, and how it is written; either alphabet."""
_ANY_FORM: Final = re.compile("|".join(form for _, form in _FORMS))
_STANDARD: Final = bytes.maketrans(b"-_=", b"+/A")
"""The standard alphabet, and padding as zeros: so a column is one text, cut behind each id's bytes."""


def hex_of_base64(column: pa.Array) -> pa.Array:
    """A text column of ids with those in base64 as hex; all others as they are. O(bytes)."""
    if not pc.any(pc.ends_with(column, "=")).as_py():
        return column
    for n_bytes, form in _FORMS:
        found = pc.fill_null(pc.match_substring_regex(column, form), False)
        if not pc.any(found).as_py():
            continue
        offsets, text = binary_parts(column.filter(found))
        packed = text[offsets[0] : offsets[-1]].tobytes().translate(_STANDARD)
        rows = np.frombuffer(base64.b64decode(packed), np.uint8).reshape(len(offsets) - 1, -1)
        digits = np.frombuffer(rows[:, :n_bytes].tobytes().hex().encode(), np.uint8)
        there = np.ones(len(rows), np.bool_)
        column = pc.replace_with_mask(column, found, fixed_values(digits, there, 2 * n_bytes, pa.string()))
    return column


def hex_of_base64_id(text: str | None) -> str | None:
    """One id: see `hex_of_base64`."""
    if text is None or not text.endswith("=") or _ANY_FORM.fullmatch(text) is None:
        return text
    return base64.urlsafe_b64decode(text.translate({ord("+"): "-", ord("/"): "_"})).hex()
