"""Publish the tables of a lake as Iceberg tables that refer to the lake's own files: no row is copied.

A snapshot of an Iceberg table shows the lake as of one commit of every lane; the snapshot records these
commits, its *cursor*. The next run adds the files of later commits. If upkeep has committed, which removes
files, the run compares the table with the lake, and removes and adds files in one snapshot. If the lake lacks
the cursor's commits, a backup was restored or another lake is in its place, so that files of the same names
may differ: the run then replaces all files. Cursor and files are written in one commit of the catalog, which
fails if somebody else committed meanwhile; so a run that was killed at any step can be repeated, and every
row is there once.

Only the lake may delete its files: the property `gc.enabled` of the tables forbids it to others. A run that
expires snapshots deletes their metadata.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NotInstalledError,
    RESTError,
    ValidationException,
)
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
from stitch.lake.chain import read_record
from stitch.lake.encoding import SCHEMAS
from stitch.lake.layout import SideTable, WindowTable, commit_name
from stitch.lake.manifest import Manifest
from stitch.lake.store import Store, map_concurrently
from stitch.lake.upkeep.hidden import UPKEEP_LANE

PUBLISHED: Final[tuple[WindowTable | SideTable, ...]] = (
    *("structures", "params", "flows"),
    *("late", "repaired", "dead_letters"),
)
"""Tables in the order in which they are published: rows that flows refer to come first."""

CURSOR: Final = "flowdiff.heads"
"""Name of a snapshot's property: JSON of lane -> (number of the last commit that the snapshot shows, hash of
that commit)."""
LAKE: Final = "flowdiff.lake"
"""Name of a table's property: location of its lake."""
_PROPERTIES: Final = {
    "gc.enabled": "false",
    "commit.retry.num-retries": "0",  # changes planned for one snapshot must not be applied to another
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
_FIRST_PARTITION_FIELD: Final = 1000
_CLIENT_ERRORS: Final = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("thrift.Thrift", "TException"),
    ("google.api_core.exceptions", "GoogleAPIError"),
    ("google.auth.exceptions", "GoogleAuthError"),
)
_OF_A_FILE: Final = ("name", "window_ns", "rows", "size")

Heads = Mapping[int, tuple[int, str]]
"""Lane number -> (number of the lane's last commit, hash of that commit)."""


class CatalogError(ConfigError):
    """A catalog cannot be reached, or has tables of somebody else under the names of the lake's tables."""

    slug = "catalog"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """Changes that one run of `publish` made to one table."""

    name: str
    added: int
    """Number of files added to the table."""
    removed: int
    """Number of files removed from the table."""
    rows: int
    """Number of rows in the table now."""


def open_catalog(name: str) -> Catalog:
    """Open the catalog that pyiceberg's configuration calls `name`. Raises CatalogError."""
    with _failures_of(name):
        return load_catalog(name)


def publish(
    manifest: Manifest, location: str, catalog: Catalog, namespace: str, *, forget_before: datetime
) -> Iterator[PublishedTable]:
    """Update the tables of a catalog to the state of the lake, one after the other.

    location: address of the lake for query engines, `file:///…` or `s3://…`. forget_before: older snapshots
    expire. Raises CatalogError; ConfigError for a location that no engine could read; LakeError if another
    run committed meanwhile. O(files of new commits); O(files) after upkeep and for other chains.
    """
    if "#" in location or "?" in location:
        raise ConfigError(
            f"A path with '#' or '?' cannot be read from Iceberg, which addresses files by URL: {location}.",
            remedy="Move the lake.",
        )
    heads = _heads(manifest)
    with _failures_of(catalog.name):
        catalog.create_namespace_if_not_exists(namespace)
        for name in PUBLISHED:
            table = _table(catalog, f"{namespace}.{name}", name, location)
            change = _change(table, manifest, heads, name, location)
            if change.added or change.removed:
                before = table.snapshots()
                _commit(table, change, heads, forget_before)
                _remove_forgotten(table, before)
            snapshot = table.current_snapshot()
            rows = 0 if snapshot is None or snapshot.summary is None else snapshot.summary["total-records"]
            yield PublishedTable(name, len(change.added), len(change.removed), int(rows or 0))


@contextmanager
def _failures_of(catalog: str) -> Iterator[None]:
    """Context manager that converts errors of a catalog's client to LakeError and CatalogError. catalog: its
    name for messages."""
    try:
        yield
    except (CommitFailedException, ValidationException) as error:
        raise LakeError(
            f"The catalog '{catalog}' was changed by another process meanwhile: {_first_line(error)}.",
            remedy="Nothing is lost: run the same command again.",
        ) from error
    except CommitStateUnknownException as error:
        raise CatalogError(
            f"The catalog '{catalog}' did not say whether it took a commit: {_first_line(error)}.",
            remedy="Run the same command again: it goes on from what the catalog has.",
        ) from error
    except NotInstalledError as error:
        raise CatalogError(
            f"The catalog '{catalog}' needs a package: {_first_line(error)}.",
            remedy="Install it where flowdiff is, and run the same command again.",
        ) from error
    except _errors_of_clients() as error:
        raise CatalogError(
            f"The catalog '{catalog}' failed: {_first_line(error)}.",
            remedy="Set it in ~/.pyiceberg.yaml, or in PYICEBERG_CATALOG__NAME__URI and __WAREHOUSE.",
        ) from error


def _errors_of_clients() -> tuple[type[Exception], ...]:
    """Exception classes of the clients of catalogs; those for Glue, DynamoDB, Hive and BigQuery only if
    pyiceberg has loaded their modules.

    They include ValueError, which pyiceberg raises for a setting that is missing or wrong.
    """
    loaded = (getattr(sys.modules[module], name) for module, name in _CLIENT_ERRORS if module in sys.modules)
    return (OSError, RESTError, SQLAlchemyError, ValueError, *loaded)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def _table(catalog: Catalog, identifier: str, name: str, location: str) -> Table:
    """Load the Iceberg table for a table of the lake, or create it if missing. Raises CatalogError."""
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
    """Iceberg schema of a table of the lake, with numbers and documentation of columns."""
    return pyarrow_to_schema(pa.schema([_without_dictionaries(field) for field in SCHEMAS[name]]))


def _without_dictionaries(field: pa.Field) -> pa.Field:
    """Field in which dictionaries, also nested ones, are replaced by text: Iceberg has no dictionary type."""
    type_ = field.type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    elif pa.types.is_list(type_):
        type_ = pa.list_(_without_dictionaries(type_.value_field))
    elif pa.types.is_struct(type_):
        type_ = pa.struct([_without_dictionaries(part) for part in type_])
    return field.with_type(type_)


def _columns(schema: Schema) -> Mapping[int, tuple[str | None, bool, str]]:
    """Number -> (name, required, type) for all columns and nested fields."""
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


def _heads(manifest: Manifest) -> Heads:
    """Last commit of every lane in the manifest's snapshot of the lake."""
    made = [head for head in manifest.heads if head[1]]
    links = map_concurrently(manifest.store, lambda head: read_record(manifest.store, *head), made)
    return {link.record.lane: (link.record.seq, link.sha256) for link in links}


def _change(table: Table, manifest: Manifest, heads: Heads, name: str, location: str) -> _Change:
    """Compare a table with the lake: files to add, and files to remove because the lake no longer has
    them."""
    snapshot = table.current_snapshot()
    listed = manifest.of_table(name)
    seen = _cursor_of(snapshot)
    known = seen is not None and _continues(seen, heads, manifest.store)
    if seen is not None and known and seen.get(UPKEEP_LANE) == heads.get(UPKEEP_LANE):
        seqs = {lane: seq for lane, (seq, _) in seen.items()}
        last = np.array([seqs.get(lane, 0) for lane in listed["lane"].to_pylist()], dtype=np.int64)
        new = listed.filter(pa.array(listed["seq"].to_numpy() > last))
        return _Change(_data_files(table, manifest, new, location), [])
    there = _files_of(table, snapshot)
    visible = {file.file_path: file for file in _data_files(table, manifest, listed, location)}
    if not known:
        return _Change([*visible.values()], [*there.values()])
    return _Change(
        [file for path, file in visible.items() if path not in there],
        [file for path, file in there.items() if path not in visible],
    )


def _cursor_of(snapshot: Snapshot | None) -> Heads | None:
    """Cursor of a snapshot; None if there is no snapshot, or another tool made it and it has no cursor."""
    said = None if snapshot is None or snapshot.summary is None else snapshot.summary[CURSOR]
    return (
        None
        if said is None
        else {int(lane): (seq, sha256) for lane, (seq, sha256) in json.loads(said).items()}
    )


def _continues(seen: Heads, heads: Heads, store: Store) -> bool:
    """True if the lake has the commits of the cursor `seen`, with the same hashes: then equal names mean
    equal files."""

    def has(lane: int) -> bool:
        if heads.get(lane) == seen[lane]:
            return True
        seq, sha256 = seen[lane]
        there = store.size(commit_name(lane, seq)) is not None
        return there and read_record(store, lane, seq).sha256 == sha256

    return all(map_concurrently(store, has, seen))


def _files_of(table: Table, snapshot: Snapshot | None) -> dict[str, DataFile]:
    if snapshot is None:
        return {}
    entries = (
        entry for part in snapshot.manifests(table.io) for entry in part.fetch_manifest_entry(table.io)
    )
    return {entry.data_file.file_path: entry.data_file for entry in entries}


def _data_files(table: Table, manifest: Manifest, listed: pa.Table, location: str) -> list[DataFile]:
    """Make the Iceberg entries of files from what their commits record; no file is opened.

    Only the column with the window's start gets bounds: engines compute min and max from bounds, so they must
    be exact.
    """
    schema, spec = table.schema(), table.spec()
    return [
        _data_file(schema, spec, f"{location}/{row['name']}", row)
        for row in manifest.listed.whole(listed, _OF_A_FILE).to_pylist()
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


def _commit(table: Table, change: _Change, heads: Heads, forget_before: datetime) -> None:
    """Commit one snapshot with removed files, added files and cursor. Raises CommitFailedException if the
    table has changed since it was read."""
    said = {CURSOR: json.dumps(heads)}
    with table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=said)
        with update.overwrite() if change.removed else update.merge_append() as snapshot:
            for file in change.removed:
                snapshot.delete_data_file(file)
            for file in change.added:
                snapshot.append_data_file(file)
        ExpireSnapshots(transaction).older_than(forget_before).commit()


def _remove_forgotten(table: Table, before: Sequence[Snapshot]) -> None:
    """Delete manifests and manifest lists of expired snapshots, except those that remaining snapshots use.

    before: snapshots before the expiry. pyiceberg does not do this. A manifest that a snapshot dropped is in
    none of its descendants, so the remaining snapshots whose parent expired have every manifest that is still
    used. O(expired). If the run dies here, files remain to which nothing refers.
    """
    kept = {snapshot.snapshot_id for snapshot in table.snapshots()}
    forgotten = [snapshot for snapshot in before if snapshot.snapshot_id not in kept]
    if not forgotten:
        return
    heirs = [snapshot for snapshot in table.snapshots() if snapshot.parent_snapshot_id not in kept]
    used = {part.manifest_path for snapshot in heirs for part in snapshot.manifests(table.io)}
    own = {part.manifest_path for snapshot in forgotten for part in snapshot.manifests(table.io)}
    for path in [*sorted(own - used), *(snapshot.manifest_list for snapshot in forgotten)]:
        table.io.delete(path)
