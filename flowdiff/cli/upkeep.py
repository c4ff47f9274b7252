"""Open a lake for an upkeep command: its store, its lock, the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.version import owner_name, version
from flowdiff.settings.keys import duration_of
from schemas.errors import LakeError, lake_error

if TYPE_CHECKING:
    from stitch.lake.upkeep.upkeep_lane import UpkeepRun

GraceOption = Annotated[
    str,
    typer.Option(
        help="Time that files which left the lake stay on disk, for readers that started before; 0: none.",
        metavar="AGE",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")]


def no_lake(lake: str) -> LakeError:
    """Error for a lake that does not exist."""
    return LakeError(f"There is no lake at '{lake}'.", remedy="Check the path.")


@contextmanager
def upkeep(lake: str, what: str, grace: str = "0") -> Iterator[UpkeepRun]:
    """Open a lake for upkeep while the block runs; a lake in a folder is locked against imports meanwhile.

    what: name of the work in messages; grace: grace period. Raises LakeError; ConfigError for an invalid
    `grace`.
    """
    grace_ns = duration_of(grace)
    from stitch.lake.disk import exclusive_lock
    from stitch.lake.layout import LAKE_FILE
    from stitch.lake.place import local_path, open_store
    from stitch.lake.upkeep.upkeep_lane import UpkeepRun

    folder = local_path(lake)
    if folder is not None and not (folder / LAKE_FILE).is_file():
        raise no_lake(lake)
    with ExitStack() as held:
        try:
            if folder is not None:
                held.enter_context(exclusive_lock(folder))
            made_by = owner_name(), f"flowdiff {version()}"
            yield UpkeepRun(open_store(lake), lake, time.time_ns(), grace_ns, *made_by)
        except OSError as error:
            raise lake_error(
                f"{what} of '{lake}' failed: {error.strerror or error}.",
                error,
                remedy="Nothing is lost: run the same command again.",
            ) from error
