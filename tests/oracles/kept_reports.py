"""Keep a report in a lake that is a folder."""

from __future__ import annotations

from pathlib import Path

from analyze.report.gate import Outcome
from analyze.report.store import keep_report
from stitch.lake.place import LakePlace, open_place
from stitch.lake.store import Store


def kept(lake: Path, outcome: Outcome, page: str) -> Path:
    """The folder of the report."""
    return Path(keep_report(open_place(str(lake)), outcome, page)).parent


def kept_in(store: Store, outcome: Outcome, page: str) -> str:
    """Where the page is, of a lake in a store."""
    return keep_report(LakePlace("lake", store, Path("lake")), outcome, page)
