"""Derive Arrow columns from the fields of a row model, so that a table and its rows cannot differ."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, Final, get_args

import pyarrow as pa
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Narrow = Annotated[int, pa.int32()]
"""Type of a row model's field that becomes an int32 column (a plain `int` becomes int64)."""
_TYPES: Final[dict[Any, pa.DataType]] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    tuple[str, ...]: pa.list_(pa.string()),
    tuple[int, ...]: pa.list_(pa.int64()),
}


def arrow_types(model: type[BaseModel]) -> dict[str, pa.DataType]:
    """Field name -> Arrow type, in the order of the model's fields."""
    return {name: _type_of(info) for name, info in model.model_fields.items()}


def _type_of(info: FieldInfo) -> pa.DataType:
    """Arrow type of a field: the one in the field's annotation, else the one in `_TYPES` for the Python
    type."""
    values: Any = info.annotation
    if NoneType in get_args(values):
        (values,) = (each for each in get_args(values) if each is not NoneType)
    return next((each for each in info.metadata if isinstance(each, pa.DataType)), None) or _TYPES[values]
