"""Apply an operation, such as concatenation or selection of rows, to all columns of dataclass objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def each_column(parts: Sequence[T], put: Callable[[Sequence[Any]], Any]) -> T:
    """Merge several dataclass objects of one type field by field.

    put: function that merges the arrays of one field of all objects; also applied to arrays inside tuples and
    nested dataclasses. Values that are not arrays are copied from the first object.
    """
    every: Sequence[Any] = parts
    first = every[0]
    if isinstance(first, np.ndarray):
        first = put(every)
    elif isinstance(first, tuple):
        first = tuple(each_column(of, put) for of in zip(*every, strict=True))
    elif is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        first = replace(first, **{n: each_column([getattr(part, n) for part in every], put) for n in names})
    found: T = first
    return found
