"""Column descriptions of a lake's files: name, type, meaning, and a permanent number.

The number is Iceberg's field id, and also in the Parquet footer: a column keeps it whatever its name becomes.
A table's columns are numbered first, then their nested fields, as Iceberg numbers a new table, so that
catalogs keep our numbers. Types are those that every engine reads: no unsigned integers.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

FIELD_ID: Final = b"PARQUET:field_id"
"""Metadata key of a field's number, as Arrow writes it into the footer of a Parquet file."""
DOC: Final = b"doc"


def stored(id_: int, name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    """Make a column of a file, or a nested field: `id_` is its permanent number, `doc` its description."""
    return pa.field(name, type_, nullable, {FIELD_ID: str(id_).encode(), DOC: doc.encode()})


def list_of(id_: int, type_: pa.DataType) -> pa.DataType:
    """List type whose element field has the permanent number `id_`."""
    return pa.list_(stored(id_, "element", type_, "", nullable=True))


def undocumented(schema: pa.Schema) -> pa.Schema:
    """Copy of a schema without descriptions, which would be most of a small file; column numbers are kept."""
    return pa.schema([_undocumented(field) for field in schema])


def _undocumented(field: pa.Field) -> pa.Field:
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_undocumented(inner) for inner in type_])
    elif pa.types.is_list(type_):
        type_ = pa.list_(_undocumented(type_.value_field))
    return pa.field(field.name, type_, field.nullable, {FIELD_ID: field.metadata[FIELD_ID]})
