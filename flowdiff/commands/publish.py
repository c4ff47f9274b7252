"""`flowdiff publish`: expose the lake as tables of other engines."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from schemas.windows import NS_PER_SECOND, parse_duration_ns


def command(
    lake: LakeOption,
    iceberg: Annotated[
        str,
        typer.Option(help="Name of the catalog in pyiceberg's configuration.", metavar="CATALOG"),
    ],
    namespace: Annotated[
        str, typer.Option(help="Namespace of the tables in the catalog.", metavar="NAME")
    ] = "flowdiff",
    keep_snapshots: Annotated[
        str, typer.Option(help="Age after which snapshots are expired; the last one is kept.", metavar="AGE")
    ] = "1d",
) -> None:
    """Publish a lake's tables to an Iceberg catalog, without copying a row.

    Run it regularly: each run adds what was committed since the last one and removes what upkeep replaced or
    deleted, in one snapshot per table.
    """
    keep = timedelta(seconds=parse_duration_ns(keep_snapshots) // NS_PER_SECOND)
    from flowdiff.extras import needed
    from stitch.lake.manifest import open_manifest
    from stitch.lake.place import address, open_store

    with needed():
        from stitch.lake.iceberg import open_catalog, publish

    manifest = open_manifest(open_store(lake), lake)
    forget_before = datetime.fromtimestamp(time.time(), UTC) - keep
    for table in publish(
        manifest, address(lake), open_catalog(iceberg), namespace, forget_before=forget_before
    ):
        echo(
            f"{namespace}.{table.name}: {table.rows:,} rows; {table.added:,} files added, "
            f"{table.removed:,} removed"
        )
