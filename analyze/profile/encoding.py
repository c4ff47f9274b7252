"""A profile as one Parquet file: its tables one below the other, a row group each, its names as JSON.

Columns are the union of the tables' columns, null where a table has none; `table` says which table a row is
of. One file, so that it is there whole or not at all; plain Parquet, so that any tool can look into it:
`SELECT site, sum(n) FROM 'stats/*/*.parquet' WHERE "table" = 'visits' GROUP BY site`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analyze.profile.names import (
    NO_CALLER,
    Child,
    Names,
    OperationName,
    PathName,
    SiteKind,
    SiteName,
)
from analyze.profile.profile import PROFILE_VERSION, SCHEMAS, Profile, Slot

STORED_VERSION: Final = 1
"""Of this file's form."""
META_VERSION: Final = b"flowdiff.profile_version"
META_SLOTS: Final = b"flowdiff.slots"
META_ROWS: Final = b"flowdiff.rows"

_NAME_TABLES: Final = ("operations", "sites", "paths", "shapes", "roots", "errors")
_NAMES: Final = "names"
_ZSTD_LEVEL: Final = 3


def _columns() -> dict[str, pa.DataType]:
    """Every column of the file, in the order in which tables bring them; integers become int32."""
    found: dict[str, pa.DataType] = {"table": pa.string()}
    for schema in SCHEMAS.values():
        for field in schema:
            found.setdefault(field.name, pa.float64() if pa.types.is_floating(field.type) else pa.int32())
    return {**found, "name": pa.string()}


_SCHEMA: Final = pa.schema([pa.field(name, type_) for name, type_ in _columns().items()])


def version() -> str:
    """Of the meaning and the form of what is stored; other ones are not read."""
    return f"{PROFILE_VERSION}.{STORED_VERSION}"


def encode(profile: Profile) -> bytes:
    """Parquet bytes; the same profile always gives the same bytes. O(rows)."""
    groups = [(_NAMES, _name_rows(profile.names)), *profile.tables().items()]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        _SCHEMA,
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for name, table in groups:
            writer.write_table(_widened(name, table), row_group_size=max(1, table.num_rows))
        writer.add_key_value_metadata(
            {
                META_VERSION: version().encode(),
                META_SLOTS: json.dumps([[s.sample, s.start_ns, s.end_ns] for s in profile.slots]).encode(),
                META_ROWS: json.dumps({name: table.num_rows for name, table in groups}).encode(),
            }
        )
    return bytes(sink.getvalue())


def decode(data: pa.Buffer | bytes) -> Profile | None:
    """The profile of `encode`; None where the bytes are no such file, or one of another version.

    Every number is held against the names it stands for, so that a profile that is given can be worked with.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        told = file.metadata.metadata or {}
        if told.get(META_VERSION, b"").decode() != version():
            return None
        rows = json.loads(told[META_ROWS])
        slots = tuple(Slot(int(a), int(b), int(c)) for a, b, c in json.loads(told[META_SLOTS]))
        tables: dict[str, pa.Table] = {}
        group = 0
        for name in (_NAMES, *SCHEMAS):
            columns = ["table", "name"] if name == _NAMES else SCHEMAS[name].names
            if rows[name]:
                table = file.read_row_group(group, columns=columns, use_threads=False)
                group += 1
            else:
                table = pa.schema([_SCHEMA.field(column) for column in columns]).empty_table()
            if table.num_rows != rows[name]:
                return None
            tables[name] = table
        names = _names_of(tables.pop(_NAMES))
        cast = {name: table.cast(SCHEMAS[name]).combine_chunks() for name, table in tables.items()}
        profile = Profile(names, slots, **cast)
    except (pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OSError):
        return None
    return profile if _is_sound(profile) else None


def _widened(name: str, table: pa.Table) -> pa.Table:
    """A table in the columns of the file."""
    n = table.num_rows
    columns = []
    for field in _SCHEMA:
        if field.name == "table" and name != _NAMES:
            columns.append(pa.repeat(pa.scalar(name), n))
        elif field.name in table.column_names:
            columns.append(table[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(n, field.type))
    return pa.table(columns, schema=_SCHEMA)


def _name_rows(names: Names) -> pa.Table:
    """Names as JSON, in their order: row `k` of a table is what the number `k` stands for."""
    tables: list[str] = []
    texts: list[str] = []
    for table in _NAME_TABLES:
        told: Sequence[Any] = getattr(names, table)
        tables += [table] * len(told)
        texts += [json.dumps(name, ensure_ascii=False, separators=(",", ":")) for name in told]
    return pa.table({"table": pa.array(tables, pa.string()), "name": pa.array(texts, pa.string())})


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "operations": lambda told: OperationName(*map(str, told)),
    "sites": lambda told: SiteName(int(told[0]), int(told[1]), SiteKind(told[2])),
    "paths": lambda told: PathName(*map(int, told)),
    "shapes": lambda told: tuple(Child(int(a), int(n), bool(awaited)) for a, n, awaited in told),
    "roots": str,
    "errors": str,
}


def _names_of(rows: pa.Table) -> Names:
    tables = rows["table"].to_pylist()
    told = json.loads(f"[{','.join(rows['name'].to_pylist())}]")
    found: dict[str, list[Any]] = {table: [] for table in _NAME_TABLES}
    for table, name in zip(tables, told, strict=True):
        found[table].append(_READ[table](name))
    made: dict[str, Any] = {table: tuple(names) for table, names in found.items()}
    return Names(**made)


def _is_sound(profile: Profile) -> bool:
    """Whether every number stands for a name or a slot."""
    names = profile.names
    n_operations, n_sites = len(names.operations), len(names.sites)
    references = [
        (n_operations, [number for site in names.sites for number in (site.caller, site.operation)]),
        (n_sites, [path.site for path in names.paths]),
        (n_operations, [child.operation for shape in names.shapes for child in shape]),
    ]
    if not all(NO_CALLER <= number < n for n, numbers in references for number in numbers):
        return False
    if not all(NO_CALLER <= path.above < at for at, path in enumerate(names.paths)):
        return False
    many = {
        "site": n_sites,
        "path": len(names.paths),
        "shape": len(names.shapes),
        "root": len(names.roots),
        "error": len(names.errors),
        "slot": len(profile.slots),
    }
    for table in profile.tables().values():
        if any(column.null_count for column in table.columns):
            return False
        for key in set(table.column_names) & many.keys():
            codes = table[key].to_numpy()
            if len(codes) and (codes.min() < 0 or codes.max() >= many[key]):
                return False
        if any(
            not np.isfinite(table[field.name].to_numpy()).all()
            for field in table.schema
            if pa.types.is_floating(field.type)
        ):
            return False
    return True
