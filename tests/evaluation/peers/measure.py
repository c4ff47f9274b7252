"""Hold public rules of other tools beside ours, on the same labelled faults: `make evaluate PEERS=1`.

Writes docs/peers.md. Recordings are those of tests/data/faults, or of REAL=DIR.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from evaluation.peers.rules import Shown, settings
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import Recording, read_recordings
from evaluation.recordings.measuring import Wanted, compared
from evaluation.systems.recorded import recorded

import flowdiff

ROOT = Path(__file__).resolve().parents[3]
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
    shown_in_quiet: int
    quiet: int

    @property
    def worth(self) -> float:
        """Share of faults named first, less that of quiet pairs with a result."""
        return self.first / max(1, self.faults) - self.shown_in_quiet / max(1, self.quiet)


def main() -> None:
    """Measure, print, write the page's table."""
    parser = argparse.ArgumentParser(prog="peers", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "tests" / "data" / "faults")
    parser.add_argument("--systems", type=int, metavar="SEED", help="instead: the described systems")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "peers.md")
    chosen = parser.parse_args()
    folder = chosen.folder if chosen.systems is None else recorded(ROOT, chosen.systems)
    asked = [one for recording in read_recordings(folder) for one in _asked(recording)]
    tools = dict.fromkeys(tool for tool, _, _ in settings())
    lines = table([*(score for tool in tools for score in best_of(tool, asked)), *_ours(folder)])
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
        "".join([head, begin, *(f"{line}\n" for line in lines), end, tail]), encoding="utf-8"
    )


def best_of(tool: str, asked: list[Asked]) -> list[Score]:
    """The settings and floors that serve a tool best on these very cases: no other choice would be kinder.

    That with the most faults named first whatever it shows in quiet pairs, and that of the best `worth`.
    """
    scores = []
    for name, setting, rule in settings():
        if name == tool:
            shown = [(one, rule(one.reference, one.problem)) for one in asked]
            scores += [_score(tool, setting, floor, shown) for floor in FLOORS]
    most = max(scores, key=lambda score: (score.first, score.worth))
    return list(dict.fromkeys([most, max(scores, key=lambda score: (score.worth, score.first))]))


def _score(tool: str, setting: str, floor: float, shown: list[tuple[Asked, list[Shown]]]) -> Score:
    first = top3 = faults = alarms = quiet = 0
    for one, rows in shown:
        kept = [row for row in rows if row.score >= floor and row.score > 0]
        if one.service is None:
            quiet += 1
            alarms += bool(kept)
        elif one.visible:
            faults += 1
            right = [one.service in named(row, one) for row in kept[:3]]
            first += right[:1] == [True]
            top3 += any(right)
    floored = f"{setting}, from {floor:.0%} on" if floor else setting
    return Score(tool, floored, first, top3, faults, alarms, quiet)


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


def _asked(recording: Recording) -> list[Asked]:
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
    return [
        Asked(of(one), of(other), service, visible, callees(of(one)))
        for one, other, service, visible in wanted
        if one is not None
    ]


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


def _ours(folder: Path) -> list[Score]:
    rows = list(compared(Wanted(folder, ("robust",), pairs=PAIRS), ROOT))
    scores = []
    for mode, words in (("b", "as it is"), ("a", "with a baseline as history")):
        faults = [row for row in rows if row["mode"] == mode and row.get("visible") == "visible"]
        quiet = [row for row in rows if row["mode"] == mode and row["kind"] == "quiet"]
        ranks = [row["rank"] for row in faults]
        first, top3 = ranks.count(1), sum(rank is not None and rank <= 3 for rank in ranks)
        alarms = sum(row["results"] > 0 for row in quiet)
        scores.append(Score("flowdiff compare", words, first, top3, len(faults), alarms, len(quiet)))
    return scores


def table(scores: list[Score]) -> list[str]:
    """Rows of the page."""
    head = ["| tool's rule | its best setting | named first | among three | quiet pairs with a result |"]
    return [
        *head,
        "|---|---|---|---|---|",
        *(
            f"| {s.tool} | {s.setting} | {s.first} of {s.faults} | {s.top3} of {s.faults} "
            f"| {s.shown_in_quiet} of {s.quiet} |"
            for s in scores
        ),
    ]


if __name__ == "__main__":
    main()
