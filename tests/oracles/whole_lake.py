"""All that `flowdiff fsck` finds: in the files of a lake, and between its log and its windows."""

from __future__ import annotations

from stitch.drivers.build.log_check import check_log
from stitch.lake.fsck import Violation
from stitch.lake.fsck import check as check_files
from stitch.lake.store import Store
from stitch.scratch import Scratch


def check(store: Store) -> list[Violation]:
    """Broken invariants of a lake."""
    with Scratch() as scratch:
        return [*check_files(store), *check_log(store, "LAKE", scratch)]
