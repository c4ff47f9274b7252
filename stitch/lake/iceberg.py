"""Show the tables of a lake as Iceberg tables, over the lake's own files: no row is copied.

A follower of the commits. What a snapshot of an Iceberg table shows is what the lake had at a commit of every
lane, and the snapshot says which: its cursor. The next run adds the files of the commits since; where upkeep
has committed, which takes files away, it compares the table with the lake, and removes and adds in one
snapshot. Cursor and files are one commit of the catalog, made only if nobody else committed meanwhile: so a
run that was killed at any step is done again, and every row is there once.

Nobody but the lake may delete its files: the tables forbid it (`gc.enabled`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import CommitFailedException, RESTError, ValidationException
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from pyiceberg.types import TimestamptzType
from sqlalchemy.exc import SQLAlchemyError

from schemas.errors import ConfigError, LakeError
from schemas.lake import WINDOW_START
from schemas.windows import NS_PER_DAY, NS_PER_US
from stitch.lake.encoding import SCHEMAS
from stitch.lake.layout import SideTable, WindowTable
from stitch.lake.manifest import Manifest
from stitch.lake.upkeep.hidden import UPKEEP_LANE

PUBLISHED: Final[tuple[WindowTable | SideTable, ...]] = (
    *("structures", "params", "flows"),
    *("late", "repaired", "dead_letters"),
)
"""Tables in the order in which they are published: what flows refer to is there before them."""

CURSOR: Final = "flowdiff.commits"
"""Property of a snapshot: the last commit of every lane that it shows, JSON."""
LAKE: Final = "flowdiff.lake"
"""Property of a table: where the lake is that it shows."""
_PROPERTIES: Final = {
    "gc.enabled": "false",
    "commit.retry.num-retries": "0",  # what was planned for one snapshot must not go on top of another
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
_FIRST_PARTITION_FIELD: Final = 1000


class CatalogError(ConfigError):
    """A catalog cannot be reached, or holds other tables under our names."""

    slug = "catalog"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """What one run did to one table."""

    name: str
    added: int
    """Files."""
    removed: int
    """Files."""
    rows: int
    """In the table now."""


def open_catalog(name: str) -> Catalog:
    """The catalog of a name in pyiceberg's own configuration. Raises CatalogError."""
    try:
        with _failures_of(name):
            return load_catalog(name)
    except ValueError as error:  # pyiceberg's word for a name it does not know, or a setting that is missing
        raise _failed(name, error) from error


def publish(
    manifest: Manifest, location: str, catalog: Catalog, namespace: str, *, forget_before: datetime
) -> Iterator[PublishedTable]:
    """Bring the tables of a catalog to where the lake is, one after the other.

    location: of the lake, as engines address it: `file:///…` or `s3://…`. forget_before: snapshots of an
    earlier time can be gone back to no more. Raises CatalogError; LakeError where another run committed
    meanwhile. O(files of new commits); after upkeep, O(files).
    """
    with _failures_of(catalog.name):
        catalog.create_namespace_if_not_exists(namespace)
        for name in PUBLISHED:
            table = _table(catalog, f"{namespace}.{name}", name, location)
            change = _change(table, manifest, name, location)
            if change.added or change.removed:
                _commit(table, change, manifest, forget_before)
            snapshot = table.current_snapshot()
            rows = 0 if snapshot is None or snapshot.summary is None else snapshot.summary["total-records"]
            yield PublishedTable(name, len(change.added), len(change.removed), int(rows or 0))


@contextmanager
def _failures_of(catalog: str) -> Iterator[None]:
    """Say what failed of a catalog, by the kinds of errors that its clients have."""
    try:
        yield
    except (CommitFailedException, ValidationException) as error:
        raise LakeError(
            f"The catalog '{catalog}' was changed by another process meanwhile: {_first_line(error)}",
            remedy="Nothing is lost: run the same command again.",
        ) from error
    except (OSError, RESTError, SQLAlchemyError) as error:
        raise _failed(catalog, error) from error


def _failed(catalog: str, error: Exception) -> CatalogError:
    return CatalogError(
        f"The catalog '{catalog}' failed: {_first_line(error)}.",
        remedy="Set it in ~/.pyiceberg.yaml, or in PYICEBERG_CATALOG__NAME__URI and __WAREHOUSE.",
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def _table(catalog: Catalog, identifier: str, name: str, location: str) -> Table:
    """The Iceberg table of a table of the lake, made where it is missing. Raises CatalogError."""
    schema = iceberg_schema(name)
    spec = UNPARTITIONED_PARTITION_SPEC
    if WINDOW_START in schema.column_names:
        source = schema.find_field(WINDOW_START).field_id
        spec = PartitionSpec(PartitionField(source, _FIRST_PARTITION_FIELD, DayTransform(), "window_day"))
    table = catalog.create_table_if_not_exists(
        identifier, schema, partition_spec=spec, properties={**_PROPERTIES, LAKE: location}
    )
    if table.properties.get(LAKE) != location:
        raise CatalogError(
            f"The table '{identifier}' shows another lake: {table.properties.get(LAKE)}.",
            remedy="Give another --namespace.",
        )
    if _columns(table.schema()) != _columns(schema):
        raise CatalogError(
            f"The table '{identifier}' has other columns than the lake.",
            remedy="Drop it, without purging, and publish again; or give another --namespace.",
        )
    return table


def iceberg_schema(name: str) -> Schema:
    """Columns of a table of the lake, with their numbers and documentation, as Iceberg has them."""
    return pyarrow_to_schema(pa.schema([_worded(field) for field in SCHEMAS[name]]))


def _worded(field: pa.Field) -> pa.Field:
    """The field with text for dictionaries: they are a form of files, not a type."""
    type_ = field.type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    elif pa.types.is_list(type_):
        type_ = pa.list_(_worded(type_.value_field))
    return field.with_type(type_)


def _columns(schema: Schema) -> Mapping[int, tuple[str | None, bool, str]]:
    """Number -> name, whether it is required, and type of all columns and what is inside them."""
    found = {}
    for number in sorted(schema.field_ids):
        field = schema.find_field(number)
        type_ = str(field.field_type) if field.field_type.is_primitive else type(field.field_type).__name__
        found[number] = (schema.find_column_name(number), field.required, type_)
    return found


@dataclass(frozen=True, slots=True)
class _Change:
    added: list[DataFile]
    removed: list[DataFile]


def _change(table: Table, manifest: Manifest, name: str, location: str) -> _Change:
    """What the lake has more and less than the table."""
    snapshot = table.current_snapshot()
    listed = manifest.listing.filter(pc.equal(manifest.listing["table"].cast(pa.string()), name))
    seen = _seen(snapshot)
    if seen is not None and seen.get(UPKEEP_LANE) == dict(manifest.heads).get(UPKEEP_LANE):
        last = np.array([seen.get(lane, 0) for lane in listed["lane"].to_pylist()], dtype=np.int64)
        new = listed.filter(pa.array(listed["seq"].to_numpy() > last))
        return _Change(_data_files(table, manifest, new, location), [])
    there = _files_of(table, snapshot)
    visible = {file.file_path: file for file in _data_files(table, manifest, listed, location)}
    return _Change(
        [file for path, file in visible.items() if path not in there],
        [file for path, file in there.items() if path not in visible],
    )


def _seen(snapshot: Snapshot | None) -> dict[int, int] | None:
    """Lane -> commit that a snapshot shows; None where none says: another tool made it, or there is none."""
    said = None if snapshot is None or snapshot.summary is None else snapshot.summary[CURSOR]
    return None if said is None else {int(lane): int(seq) for lane, seq in json.loads(said).items()}


def _files_of(table: Table, snapshot: Snapshot | None) -> dict[str, DataFile]:
    if snapshot is None:
        return {}
    entries = (
        entry for part in snapshot.manifests(table.io) for entry in part.fetch_manifest_entry(table.io)
    )
    return {entry.data_file.file_path: entry.data_file for entry in entries}


def _data_files(table: Table, manifest: Manifest, listed: pa.Table, location: str) -> list[DataFile]:
    """Describe files by what commits say of them; none is opened.

    Only the start of the window has bounds: engines answer min and max from bounds, so they must be exact.
    """
    schema, spec = table.schema(), table.spec()
    return [
        _data_file(schema, spec, f"{location}/{row['name']}", row)
        for row in manifest.listed.whole(listed).to_pylist()
    ]


def _data_file(schema: Schema, spec: PartitionSpec, path: str, row: Mapping[str, Any]) -> DataFile:
    partition, bounds, counts, nulls = Record(), {}, {}, {}
    if row["window_ns"] is not None:
        column = schema.find_field(WINDOW_START)
        partition = Record(row["window_ns"] // NS_PER_DAY)
        bounds = {column.field_id: to_bytes(TimestamptzType(), row["window_ns"] // NS_PER_US)}
        counts, nulls = {column.field_id: row["rows"]}, {column.field_id: 0}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=row["rows"],
        file_size_in_bytes=row["size"],
        column_sizes={},
        value_counts=counts,
        null_value_counts=nulls,
        nan_value_counts={},
        lower_bounds=bounds,
        upper_bounds=bounds,
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        spec_id=spec.spec_id,
    )


def _commit(table: Table, change: _Change, manifest: Manifest, forget_before: datetime) -> None:
    """One snapshot: what goes, what comes, and up to which commits. Raises CommitFailedException where the
    table is not as it was read."""
    said = {CURSOR: json.dumps({str(lane): seq for lane, seq in manifest.heads})}
    with table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=said)
        with update.overwrite() if change.removed else update.merge_append() as snapshot:
            for file in change.removed:
                snapshot.delete_data_file(file)
            for file in change.added:
                snapshot.append_data_file(file)
        ExpireSnapshots(transaction).older_than(forget_before).commit()
