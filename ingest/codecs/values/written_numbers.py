"""Recognise numbers in text, for formats whose attributes are all text."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.attributes import AttributeTable
from ingest.codecs.values.columns import mask
from ingest.codecs.values.ids import binary_parts

_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?(e[-+][0-9]{1,3})?$"
"""Pattern of canonical numbers: no plus, no redundant zeros, a signed exponent. So `1.0`, `007` and `1e5`
stay text."""
_SURE_DIGITS: Final = 15
"""Maximum number of decimal digits that a double is certain to preserve."""
_MOST_DIGITS: Final = 25
"""Maximum length of the text of a double, with sign, point and exponent; longer text is not a number."""


def with_numbers(table: AttributeTable) -> AttributeTable:
    """Convert texts to numbers where printing the number gives the same text again.

    `table.row` must be None. No digit is lost: an id of 20 digits stays text. O(rows).
    """
    offsets, data = binary_parts(table.text)
    lengths = np.diff(offsets)
    first = np.full(len(table.text), ord("x"), np.uint8)
    full = (lengths > 0) & (lengths <= _MOST_DIGITS)
    first[full] = data[offsets[:-1][full]]
    at = np.flatnonzero((first == ord("-")) | ((first >= ord("0")) & (first <= ord("9"))))
    texts = table.text.take(pa.array(at))
    legal = mask(pc.match_substring_regex(texts, _NUMBER))
    at, texts = at[legal], texts.filter(pa.array(legal))
    if len(at) == 0:
        return table
    number = pc.cast(texts, pa.float64()).to_numpy()
    exact = np.isfinite(number) & ~((number == 0) & (lengths[at] > 1))
    has_exponent = mask(pc.match_substring(texts, "e"))
    unsure = np.flatnonzero(exact & (has_exponent | (lengths[at] > _SURE_DIGITS)))
    exact[unsure] = [
        prints_as(value, text)
        for value, text in zip(number[unsure].tolist(), texts.take(pa.array(unsure)).to_pylist(), strict=True)
    ]
    at, number = at[exact], number[exact]
    is_number = np.zeros(len(table), np.bool_)
    is_number[at] = True
    num = np.zeros(len(table))
    num[at] = number
    chosen = pa.array(is_number)
    return replace(
        table,
        num=pc.if_else(chosen, pa.array(num), table.num),
        text=pc.if_else(chosen, pa.scalar(None, pa.string()), table.text),
    )


def prints_as(value: float, text: str) -> bool:
    """True if the number prints as `text`: an integer as its digits, any other number in the shortest
    form."""
    if "e" in text:
        digits, _, exponent = text.partition("e")
        mine, _, my_exponent = repr(value).partition("e")
        return (digits, int(exponent)) == (mine, int(my_exponent or "0"))
    if "." not in text:
        return text == str(int(value))
    return text == np.format_float_positional(value, unique=True, trim="-")
