"""What to look at: a period of a lake, its windows and files found by its manifest, none of them opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from schemas.errors import PeriodError
from schemas.periods import Condition, Period, fitted, windows_of
from stitch.lake.layout import WindowTable
from stitch.lake.manifest import Manifest, open_manifest
from stitch.lake.store import LocalStore


@dataclass(frozen=True, slots=True)
class LakePeriod:
    """A period of a lake that is there: its bounds fitted to windows, its files listed."""

    period: Period
    root: Path
    """Folder of the lake."""
    window_ns: int
    """Length of its windows."""
    flows: tuple[Path, ...]
    structures: tuple[Path, ...]
    params: tuple[Path, ...]
    dead_letters: tuple[Path, ...] = ()
    """Those of the whole lake: what could not be read has no time."""
    pending: int = 0
    """Commits that are not published yet; none of their files is listed."""
    sums: Mapping[Path, str] = field(default_factory=dict)
    """SHA-256 of each listed file, hex, as it was committed."""


def resolve(period: Period, *, default_lake: str | None = None, may_be_empty: bool = False) -> LakePeriod:
    """Find the windows and files of a period.

    may_be_empty: a lake that has no window at all gives a period without flows. Raises PeriodError if no lake
    is named or no sealed window lies in the period (or an unsealed one does), LakeError if there is no lake
    or a file of its last commit is lost.
    """
    lake = period.lake if period.lake is not None else default_lake
    if lake is None:
        raise PeriodError(f"Period {period.text} names no lake.", remedy="Write LAKE@RANGE, or give --lake.")
    root = Path(lake)
    manifest: Manifest = open_manifest(LocalStore.at(root), lake)
    entries = manifest.windows()
    windows = []
    if entries or not may_be_empty:
        windows = windows_of(
            period,
            [entry.window for entry in entries if entry.sealed],
            [entry.window for entry in entries if not entry.sealed],
        )
    tables: tuple[WindowTable, ...] = ("flows", "structures", "params")
    listed = [*(manifest.files(table, windows) for table in tables), manifest.files("dead_letters")]
    flows, structures, params, dead_letters = (tuple(root / file.name for file in files) for files in listed)
    return LakePeriod(
        replace(fitted(period, windows), lake=lake),
        root,
        manifest.info.window_length_ns,
        flows,
        structures,
        params,
        dead_letters=dead_letters,
        pending=manifest.pending,
        sums={root / file.name: file.sha256 for files in listed for file in files},
    )


def pending_note(found: LakePeriod) -> str | None:
    """One sentence where an interrupted import keeps something from readers, else None."""
    if not found.pending:
        return None
    commits = "1 commit is" if found.pending == 1 else f"{found.pending} commits are"
    return f"{commits} not published yet; the next import finishes {'it' if found.pending == 1 else 'them'}."


def refuse_overlap(periods: Sequence[LakePeriod]) -> None:
    """Requests in two samples of a comparison would be held against themselves.

    Two periods of one lake may overlap in time only where each has a filter of its own (two versions in the
    same hour); whether the filters part the requests is not looked at. Raises PeriodError.
    """
    for one, other in combinations(periods, 2):
        first, past = (
            max(one.period.start_ns, other.period.start_ns),
            min(one.period.end_ns, other.period.end_ns),
        )
        same = one.root.resolve() == other.root.resolve() and _terms(one.period) == _terms(other.period)
        if same and first < past:
            raise PeriodError(
                f"Periods {one.period.text} and {other.period.text} overlap: a request would be in both.",
                remedy="Take periods apart, or filters that differ (--reference-where, --problem-where).",
            )


def _terms(period: Period) -> tuple[Condition, ...]:
    return () if period.where is None else period.where.conditions
