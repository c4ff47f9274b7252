"""Score robust mode on faults that touch a segment of requests: `make evaluate SEGMENTS=10`, seeds 0 to 9.

Each scenario is compared with history (a) and with its reference alone (b), and windows without a fault with
the one before. Printed are first places, how many of them name attribute and value, whether two incidents at
once are two findings, a kind that is new, and findings a quiet pair. A finding counts for the component that
it names, as among recordings; attribute and value count in its title or in what explains it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evaluation.recordings.comparing import LIMITS, Mode, chosen_of
from evaluation.recordings.naming import callee, callees_of
from evaluation.segments.described import Fault
from evaluation.segments.recorded import Pair, recorded

from analyze.compare import compare
from analyze.profile.history import StatisticsUse, read_samples
from analyze.refine.settings import RefineSettings
from flowdiff.samples import find_samples
from schemas.report.findings import Finding, FindingsSection

ROOT = Path(__file__).resolve().parents[3]
MODES: Final[tuple[Mode, ...]] = ("a", "b")
NEW_KIND: Final = "refund"


@dataclass(frozen=True, slots=True)
class Scored:
    """What a comparison told of what is true."""

    seed: int
    mode: Mode
    scenario: str
    is_quiet: bool
    faults: int
    findings: int
    first: bool
    """The first finding is at the component of a fault."""
    named: bool
    """And says attribute and value, where the fault has some."""
    found: int
    """Faults whose component has a finding of their kind."""
    outcome: str
    texts: tuple[str, ...]


def scored(
    pair: Pair, lake: Path, seed: int, mode: Mode, changed: dict[str, Any], use: StatisticsUse
) -> Scored:
    """Compare a pair as the command does, and judge."""
    history = pair.history if mode == "a" else ()
    texts = {"reference": [pair.reference], "problem": [pair.problem]}
    samples = find_samples(texts, history, now_ns=0, lake=str(lake))
    read = read_samples(samples.compared, samples.history, RefineSettings(), use=use)
    chosen = [chosen_of("robust", changed)]
    outcome = compare(read.compared, chosen, history=read.history, limits=LIMITS)
    section = next(s for s in outcome.report.sections if isinstance(s, FindingsSection))
    callees = callees_of(read.compared.population)

    def at(finding: Finding, component: str) -> bool:
        named = {finding.site.component, finding.suspect} | callee(callees, finding.site)
        return component in named

    scenario, findings = pair.scenario, section.findings
    if scenario.new_kind:
        told = [finding for finding in findings if NEW_KIND in finding.title]
        first, named, found = findings[:1] == tuple(told[:1]) and bool(told), bool(told), int(bool(told))
    else:
        right = [fault for fault in scenario.faults if findings and at(findings[0], fault.component)]
        first = bool(right)
        named = any(says(findings[0], fault) for fault in right)
        found = sum(any(at(f, fault.component) for f in findings) for fault in scenario.faults)
    return Scored(
        seed,
        mode,
        scenario.name,
        scenario.is_quiet,
        len(scenario.faults) or int(not scenario.is_quiet),
        section.findings_total,
        first,
        named,
        found,
        outcome.report.verdict.outcome,
        tuple(f"{f.title} | {said(f)}" for f in findings[:4]),
    )


def said(finding: Finding) -> str:
    """Give what explains a finding, in its words."""
    return "" if finding.explanation is None else finding.explanation.sentence


def says(finding: Finding, fault: Fault) -> bool:
    """Tell whether a finding names every attribute of a fault's segment with its value."""
    text = f"{finding.title} {said(finding)}"
    return all(key in text and value in text for key, value in fault.of.items())


def figures(rows: Sequence[Scored]) -> Iterator[str]:
    """Give a line a scenario and mode, then totals."""
    for mode, words in (("a", "with history"), ("b", "alone")):
        there = [row for row in rows if row.mode == mode]
        for name in dict.fromkeys(row.scenario for row in there):
            mine = [row for row in there if row.scenario == name]
            if mine[0].is_quiet:
                yield f"{words}, {name}: {_mean(mine)} findings in {len(mine)} pairs"
            else:
                yield (
                    f"{words}, {name}: first {sum(row.first for row in mine)}/{len(mine)}, "
                    f"named {sum(row.named for row in mine)}, "
                    f"all faults found {sum(row.found == row.faults for row in mine)}, "
                    f"{_mean(mine)} findings"
                )
        faults, quiet = ([row for row in there if row.is_quiet == no] for no in (False, True))
        yield (
            f"{words}: first {sum(row.first for row in faults)}/{len(faults)}, "
            f"of which named {sum(row.named for row in faults if row.first)}; "
            f"quiet {_mean(quiet)} findings in {len(quiet)} pairs"
        )


def _mean(rows: Sequence[Scored]) -> str:
    return f"{sum(row.findings for row in rows) / max(1, len(rows)):.2f}"


def main() -> None:
    """Compare all that is asked for, print what came out."""
    parser = argparse.ArgumentParser(prog="segments", description=__doc__)
    parser.add_argument("seeds", type=int, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--case", default="", metavar="TEXT", help="only scenarios with this text")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="settings of the method")
    parser.add_argument("--statistics", action="store_true", help="read the history from statistics")
    parser.add_argument("--shown", action="store_true", help="print every comparison")
    chosen = parser.parse_args()
    changed = {name: json.loads(value) for name, _, value in (text.partition("=") for text in chosen.set)}
    rows = []
    use: StatisticsUse = "history" if chosen.statistics else "never"
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        lake, pairs = recorded(ROOT, seed)
        for pair in pairs:
            for mode in MODES:
                if chosen.case in pair.scenario.name:
                    rows.append(scored(pair, lake, seed, mode, changed, use))
                    if chosen.shown:
                        row = rows[-1]
                        print(seed, mode, row.scenario, row.outcome, row.first, row.named, row.findings)
                        print("".join(f"    {text}\n" for text in row.texts), end="", flush=True)
    print("\n".join(figures(rows)))


if __name__ == "__main__":
    main()
