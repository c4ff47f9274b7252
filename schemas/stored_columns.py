"""Describe the columns that files of a lake have: name, type, meaning, and the number that tools know.

The number is Iceberg's field id, and stands in the footer too: a column keeps it for life, whatever its
name. Numbers count the columns of a table first and then what is inside them, as Iceberg numbers a new
table, so that a catalog keeps ours. Types are those that every engine reads: no unsigned integers.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

FIELD_ID: Final = b"PARQUET:field_id"
"""Metadata of a field that Arrow writes into the footer of a Parquet file."""
DOC: Final = b"doc"


def stored(id_: int, name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    """Make a column of a file, or a field inside one."""
    return pa.field(name, type_, nullable, {FIELD_ID: str(id_).encode(), DOC: doc.encode()})


def list_of(id_: int, type_: pa.DataType) -> pa.DataType:
    """Make the type of lists whose elements have a number."""
    return pa.list_(stored(id_, "element", type_, "", nullable=True))


def undocumented(schema: pa.Schema) -> pa.Schema:
    """Leave out the documentation, which would be most of a small file; numbers stay."""
    return pa.schema([_undocumented(field) for field in schema])


def _undocumented(field: pa.Field) -> pa.Field:
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_undocumented(inner) for inner in type_])
    elif pa.types.is_list(type_):
        type_ = pa.list_(_undocumented(type_.value_field))
    return pa.field(field.name, type_, field.nullable, {FIELD_ID: field.metadata[FIELD_ID]})
