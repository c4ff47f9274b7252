"""Score robust mode on labelled faults in a few CPU minutes, for who changes it.

    make score REAL=DIR        recordings of real systems (`tests/data/README.md` says which)
    make evaluate SYSTEMS=1    eighteen small systems that somebody made up (`tests/evaluation/systems`)

All faults are compared with history (a) and with their reference alone (b), and some quiet pairs, both ways.
Printed are the cases that differ from those kept in `score.json`, and a line of figures for each recording or
system. Lakes are kept in `.cache/recordings` for as long as their sources are the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.recordings.measuring import Wanted, compared
from evaluation.recordings.verdicts import Row, crashed, passed_unseen
from evaluation.systems.recorded import recorded

ROOT = Path(__file__).resolve().parents[3]
KEPT = Path(__file__).with_name("score.json")
KEPT_OF_SYSTEMS = ROOT / "tests" / "evaluation" / "systems" / "score.json"
PAIRS, PAIRS_OF_SYSTEMS = 20, 6
"""Quiet pairs of a recording, of a system."""

Case = dict[str, Any]
"""What is held of a comparison: results, rank of the right one, outcome, exit code, what the first says."""


def main() -> None:
    """Compare, print what changed and the figures."""
    parser = argparse.ArgumentParser(prog="score", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="recordings and their cases.json")
    parser.add_argument("--systems", type=int, metavar="SEED", help="instead: the described systems")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases and pairs with this text")
    parser.add_argument("--against", type=Path, help="cases of another run")
    parser.add_argument("--keep", type=Path, help="write the cases of this run here")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the method")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    chosen = parser.parse_args()
    if (chosen.folder is None) == (chosen.systems is None):
        parser.error("name a folder of recordings, or --systems SEED")
    made = chosen.folder is None
    wanted = Wanted(
        recorded(ROOT, chosen.systems) if made else chosen.folder,
        ("robust",),
        case=chosen.case,
        pairs=PAIRS_OF_SYSTEMS if made else PAIRS,
        settings={name: value for name, _, value in (text.partition("=") for text in chosen.set)},
        workers=chosen.workers,
    )
    rows = list(compared(wanted, ROOT))
    cases = {_name(row): _case(row) for row in rows}
    against = chosen.against or (KEPT_OF_SYSTEMS if made else KEPT)
    if against.is_file():
        known = json.loads(against.read_text(encoding="utf-8"))
        print("\n".join(changes({n: c for n, c in known.items() if n in cases or not chosen.case}, cases)))
    if chosen.keep is not None:
        lines = [
            f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}" for name, case in cases.items()
        ]
        chosen.keep.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print("\n".join(figures(rows)))


def _name(row: Row) -> str:
    system = row["recording"].partition("-20")[0]
    about = row["case"] if row["kind"] == "fault" else f"{row['reference'][11:19]}|{row['problem'][11:19]}"
    return f"{system} {row['mode']} {row.get('visible', 'quiet')} {about}"


def _case(row: Row) -> Case:
    case = {"results": row["results"], "outcome": row["outcome"], "exit": row["exit_code"]}
    case |= {"rank": row["rank"]} if row["kind"] == "fault" else {}
    return case | ({"first": row["top"][0]["text"]} if row["top"] else {})


def changes(known: dict[str, Case], cases: dict[str, Case]) -> list[str]:
    """Lines that say which cases differ, and in what; those only in the first result last."""
    found: list[str] = []
    worded: list[str] = []
    for name in dict.fromkeys([*known, *cases]):
        old, new = known.get(name, {}), cases.get(name, {})
        if unlike := [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]:
            line = f"{name}: " + ", ".join(f"{key} {old.get(key)} → {new.get(key)}" for key in unlike)
            (worded if unlike == ["first"] else found).append(line)
    return [*found, *worded, f"{len(found)} of {len(cases)} cases differ, {len(worded)} more in words"]


def figures(rows: Sequence[Row]) -> list[str]:
    """First places, results a fault, quiet pairs' results: a line a recording, and one for all."""
    names = list(dict.fromkeys(row["recording"] for row in rows))
    lines = [_figures(name, [row for row in rows if row["recording"] == name]) for name in names]
    return [*lines, _figures("all", rows)]


def _figures(name: str, rows: Sequence[Row]) -> str:
    parts = []
    for mode, words in (("a", "with history"), ("b", "alone")):
        there = [row for row in rows if row["mode"] == mode]
        seen = [row for row in there if row.get("visible") == "visible"]
        wrong = sum(row["results"] > 0 and row["rank"] != 1 for row in seen)
        parts.append(
            f"{words} first {sum(row['rank'] == 1 for row in seen)}/{len(seen)}, wrong first {wrong}"
        )
        parts[-1] += f", {_mean(seen)} a fault"
        if unseen := [row for row in there if row.get("visible") == "invisible"]:
            parts[-1] += f", invisible {_mean(unseen)}"
        if quiet := [row for row in there if row["kind"] == "quiet"]:
            parts[-1] += f", quiet {_mean(quiet)}"
    bad = f"passed unseen {sum(map(passed_unseen, rows))}, crashed {sum(map(crashed, rows))}"
    return "; ".join([f"{name.partition('-20')[0]:20}", *parts, bad])


def _mean(rows: Sequence[Row]) -> str:
    return f"{sum(row['results'] for row in rows) / max(1, len(rows)):.2f}"


if __name__ == "__main__":
    main()
