"""The same incident on both sides: each labelled problem of a recording, its first half against its second.

    make evaluate HALVES=1 REAL=DIR

The quiet stretches are the history. What is found is false, except where an incident grows. Halves without a
request are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.recordings.comparing import Asked, Compared, perform
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import Recording, bounds, read_recordings

from schemas.errors import PeriodError
from schemas.periods import Period

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Half:
    """A pair of halves, compared."""

    case: str
    found: Compared


def main() -> None:
    """Compare, print the pairs with a finding and the figures."""
    parser = argparse.ArgumentParser(prog="halves", description=__doc__)
    parser.add_argument("folder", type=Path, help="recordings and their cases.json")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases with this text")
    parser.add_argument("--json", type=Path, help="write figures here")
    chosen = parser.parse_args()
    found = []
    for recording in read_recordings(chosen.folder):
        for half in halves(recording, lake_of(recording, ROOT), chosen.case):
            found.append(half)
            for result in half.found.told.results:
                print(f"{half.case}: {result.text} (\u00d7{result.factor:.3g})", flush=True)
    print(", ".join(f"{name} {value}" for name, value in figures(found).items()))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(figures(found), indent=1) + "\n", encoding="utf-8")


def halves(recording: Recording, lake: Path, case: str = "") -> Iterator[Half]:
    """Compare the halves of each problem period."""
    for fault in recording.faults:
        if case not in fault.id:
            continue
        start, end = bounds(fault.problem)
        middle = start + (end - start) // 2 // 10**9 * 10**9
        first, second = Period(None, start, middle).text, Period(None, middle, end).text
        try:
            (found,) = perform(Asked(recording, lake, "a", first, second, quiet=False), ("robust",), {})
        except PeriodError:  # a half without a request: nothing to compare
            continue
        yield Half(fault.id, found)


def figures(found: list[Half]) -> dict[str, Any]:
    """Count pairs, findings, and pairs of which the report says that it was there before."""
    told = [half.found.told for half in found]
    results = sum(one.total for one in told)
    return {
        "pairs": len(found),
        "findings": results,
        "findings_a_pair": round(results / max(len(found), 1), 3),
        "there_before": sum(one.there_before for one in told),
    }


if __name__ == "__main__":
    main()
