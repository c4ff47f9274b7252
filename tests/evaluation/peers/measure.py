"""Hold public rules of other tools beside ours, on the same labelled faults: `make evaluate PEERS=1`.

Writes docs/internals/peers.md. Recordings are those of tests/data/faults, or of REAL=DIR.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
from evaluation.peers.rules import Shown, settings
from evaluation.recordings.comparing import Mode
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import Recording, read_recordings
from evaluation.recordings.measuring import Wanted, compared
from evaluation.recordings.verdicts import Row
from evaluation.systems.recorded import recorded

import flowdiff

ROOT = Path(__file__).resolve().parents[3]
MODES: Final[Mapping[Mode, str]] = {
    "b": "The reference alone",
    "a": "Ordinary times as history, given to all",
}
TOOLS: Final = tuple(dict.fromkeys(tool for tool, _, _ in settings()))
PAIRS = 6
"""Quiet pairs of a recording."""
FLOORS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Scores under which a first row is taken for nothing: points of shares, or of relative change."""
_SPANS = (
    "select parent, component, component || '/' || operation as operation, host, status, duration_us,"
    " request_id, position from spans order by request_id, position"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A fault, or a quiet pair."""

    reference: pl.DataFrame
    problem: pl.DataFrame
    service: str | None
    """The truth; None: nothing happened."""
    visible: bool
    """True if an independent look at the spans saw it."""
    callees: Mapping[str, str]
    """The one other component that the spans of an operation call."""


@dataclass(frozen=True, slots=True)
class Score:
    """How often a rule named the right service."""

    tool: str
    setting: str
    first: int
    top3: int
    faults: int
    """Number of faults that can be seen."""
    labelled: int
    """Named first of all that are labelled."""
    all_labelled: int
    shown_in_quiet: int
    quiet: int

    @property
    def worth(self) -> float:
        """Share of faults named first, less that of quiet pairs with a result."""
        return self.first / max(1, self.faults) - self.shown_in_quiet / max(1, self.quiet)


def main() -> None:
    """Measure, print, write the page's tables."""
    parser = argparse.ArgumentParser(prog="peers", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "tests" / "data" / "faults")
    parser.add_argument("--systems", type=int, metavar="SEED", help="instead: the described systems")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "internals" / "peers.md")
    chosen = parser.parse_args()
    folder = chosen.folder if chosen.systems is None else recorded(ROOT, chosen.systems)
    lines: list[str] = []
    ours = list(compared(Wanted(folder, ("robust",), pairs=PAIRS), ROOT))
    for mode, words in MODES.items():
        asked = [one for recording in read_recordings(folder) for one in _asked(recording, mode)]
        rows = [row for row in ours if row["mode"] == mode]
        own = [_our_score(rows, suspects=suspects) for suspects in (False, True)]
        scores = [score for tool in TOOLS for score in best_of(tool, asked, own[0])]
        lines += [f"{words}:", "", *table([*scores, *own]), ""]
    print("\n".join(lines))
    name = "recordings" if chosen.systems is None else "systems"
    page = (
        chosen.page.read_text(encoding="utf-8")
        if chosen.page.exists()
        else f"<!-- {name} -->\n<!-- /{name} -->\n"
    )
    head, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, tail = rest.partition(f"<!-- /{name} -->")
    chosen.page.write_text(
        "".join([head, begin, *(f"{line}\n" for line in lines[:-1]), end, tail]), encoding="utf-8"
    )


def best_of(tool: str, asked: list[Asked], ours: Score | None = None) -> list[Score]:
    """The settings and floors that serve a tool best on these very cases: no other choice would be kinder.

    That with the most faults named first whatever it shows in quiet pairs, that of the best `worth`, and that
    with the most faults named first which shows something in no more quiet pairs than `ours`.
    """
    scores = []
    for name, setting, rule in settings():
        if name == tool:
            shown = [(one, rule(one.reference, one.problem)) for one in asked]
            quiet = {rows[0].score for one, rows in shown if one.service is None and rows}
            floors = {*FLOORS, *(score * (1 + 1e-9) for score in quiet)}
            scores += [_score(tool, setting, floor, shown) for floor in sorted(floors)]
    best = [max(scores, key=lambda s: (s.first, s.worth)), max(scores, key=lambda s: (s.worth, s.first))]
    if ours is not None:
        silent = [score for score in scores if score.shown_in_quiet <= ours.shown_in_quiet]
        best.append(max(silent, key=lambda s: (s.first, s.worth)))
    return list(dict.fromkeys(best))


def _score(tool: str, setting: str, floor: float, shown: list[tuple[Asked, list[Shown]]]) -> Score:
    first = top3 = faults = labelled = every = alarms = quiet = 0
    for one, rows in shown:
        kept = [row for row in rows if row.score >= floor and row.score > 0]
        if one.service is None:
            quiet += 1
            alarms += bool(kept)
            continue
        right = [one.service in named(row, one) for row in kept[:3]]
        every += 1
        labelled += right[:1] == [True]
        if one.visible:
            faults += 1
            first += right[:1] == [True]
            top3 += any(right)
    floored = f"{setting}, from {floor:.3g} on" if floor else setting
    return Score(tool, floored, first, top3, faults, labelled, every, alarms, quiet)


def named(row: Shown, one: Asked) -> set[str]:
    """Services that a row sends a reader to: those of ours are judged alike (`recordings.naming`)."""
    if row.attribute == "component":
        return {row.value}
    if row.attribute == "operation":
        return {row.value.partition("/")[0], one.callees.get(row.value, "")}
    if row.attribute == "host":
        spans = pl.concat([one.reference, one.problem]).filter(pl.col("host") == row.value)
        return {*spans["component"].unique()}
    return set()


def _asked(recording: Recording, mode: Mode) -> list[Asked]:
    lake = flowdiff.open(str(lake_of(recording, ROOT)))
    spans: dict[str, pl.DataFrame] = {}

    def of(period: str) -> pl.DataFrame:
        if period not in spans:
            spans[period] = lake.sql(_SPANS, period).pl().with_columns(pl.col(pl.Categorical).cast(pl.String))
        return spans[period]

    wanted = [
        *((f.reference, f.problem, f.service, f.visible == "visible") for f in recording.faults),
        *((one, other, None, False) for one, other in recording.quiet_pairs(PAIRS)),
    ]
    asked = []
    for one, other, service, visible in wanted:
        history = recording.history(one, other) if mode == "a" else ()
        before = [of(period) for period in ((one,) if one is not None else ()) + tuple(history)]
        if before:  # no rule tells noise from change: to all of them ordinary times are more reference
            reference = pl.concat(before)
            asked.append(Asked(reference, of(other), service, visible, callees(reference)))
    return asked


def callees(spans: pl.DataFrame) -> dict[str, str]:
    """The one other component that the children of an operation's spans belong to."""
    parents = spans.select("request_id", pl.col("position").alias("parent"), "operation", "component")
    calls = (
        spans.select("request_id", "parent", pl.col("component").alias("called"))
        .join(parents, on=["request_id", "parent"])
        .filter(pl.col("component") != pl.col("called"))
        .group_by("operation")
        .agg(pl.col("called").unique())
        .filter(pl.col("called").list.len() == 1)
    )
    return {operation: called[0] for operation, called in calls.select("operation", "called").iter_rows()}


def _our_score(rows: Sequence[Row], *, suspects: bool) -> Score:
    """Score findings; with `suspects`, those after them, too."""
    faults, quiet = ([row for row in rows if row["kind"] == kind] for kind in ("fault", "quiet"))
    rank = "place" if suspects else "rank"
    ranks = [row[rank] for row in faults if row["visible"] == "visible"]
    return Score(
        "flowdiff compare",
        "findings, then suspects" if suspects else "findings",
        ranks.count(1),
        sum(place is not None and place <= 3 for place in ranks),
        len(ranks),
        sum(row[rank] == 1 for row in faults),
        len(faults),
        sum(row["results"] > 0 or (suspects and row["suspects"] > 0) for row in quiet),
        len(quiet),
    )


def table(scores: list[Score]) -> list[str]:
    """Rows of the page."""
    return [
        "| tool's rule | its best setting | named first | among three | first of all labelled "
        "| quiet pairs with a result |",
        "|---|---|---|---|---|---|",
        *(
            f"| {s.tool} | {s.setting} | {s.first} of {s.faults} | {s.top3} of {s.faults} "
            f"| {s.labelled} of {s.all_labelled} | {s.shown_in_quiet} of {s.quiet} |"
            for s in scores
        ),
    ]


if __name__ == "__main__":
    main()
