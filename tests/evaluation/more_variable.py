"""Whether the first place that `flowdiff variance` calls more variable is the labelled service's or calls it.

PYTHONPATH=tests python -m evaluation.more_variable DIR [--lakes DIR]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from evaluation.diverging import ROOT, TYPES, compared
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import read_recordings

from analyze.methods.variance.method import variance_result
from analyze.methods.variance.settings import VarianceSettings
from analyze.population import Population
from analyze.report.limits import ReportLimits
from schemas.report.variance import VarianceChangeSection

SETTINGS = VarianceSettings(details=0, explained=0)


def change_of(found: Population) -> VarianceChangeSection:
    """What two periods of a population are told."""
    sections = variance_result(found, (), SETTINGS, ReportLimits()).sections
    return next(section for section in sections if isinstance(section, VarianceChangeSection))


def recorded(folder: Path, lakes: Path | None) -> Iterator[str]:
    """A line a fault, and totals a recording: of faults with a reference just before, and of the others."""
    for recording in read_recordings(folder):
        lake = lake_of(recording, ROOT) if lakes is None else lakes / f"{recording.name}.lake"
        first = {True: 0, False: 0}
        told = {True: 0, False: 0}
        faults = {True: 0, False: 0}
        for fault in (fault for fault in recording.faults if fault.type in TYPES):
            before = fault.reference is not None
            more = [row for row in change_of(compared(recording, lake, fault)).sites if row.ratio > 1]
            hit = bool(more) and fault.service in more[0].label
            faults[before] += 1
            told[before] += bool(more)
            first[before] += hit
            label = more[0].label if more else "nothing"
            yield f"{fault.id} ({fault.visible}): {'first' if hit else 'no'}; {label}"
        for before, words in ((True, "reference just before"), (False, "quiet stretches")):
            yield (
                f"{recording.name}, {words}: of {faults[before]} faults something is told in {told[before]}, "
                f"the labelled service first in {first[before]}"
            )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lakes", type=Path)
    asked = parser.parse_args()
    for line in recorded(asked.folder, asked.lakes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
