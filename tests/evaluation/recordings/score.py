"""Score robust mode on the labelled recordings in two CPU minutes, for who changes it: `make score REAL=DIR`.

    PYTHONPATH=tests python -m evaluation.recordings.score DIR [--against FILE] [--keep FILE] [--set …]

All faults with history (a) and with their reference alone (b), and 20 quiet pairs of each recording, both
ways. Prints the cases that differ from what is kept in `score.json`, or in FILE, and a line of figures. Lakes
are kept in `.cache/recordings` for as long as their sources are the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.recordings.measuring import Wanted, compared
from evaluation.recordings.verdicts import Row, crashed, passed_unseen

ROOT = Path(__file__).resolve().parents[3]
KEPT = Path(__file__).with_name("score.json")
PAIRS = 20

Case = dict[str, Any]
"""What is held of a comparison: results, rank of the right one, outcome, exit code, what the first says."""


def main() -> None:
    """Compare, tell what changed, print the figures."""
    parser = argparse.ArgumentParser(prog="score", description=__doc__)
    parser.add_argument("folder", type=Path, help="recordings and their cases.json")
    parser.add_argument("--against", type=Path, default=KEPT, help="cases of another run")
    parser.add_argument("--keep", type=Path, help="write the cases of this run here")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the method")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    chosen = parser.parse_args()
    settings = {name: value for name, _, value in (text.partition("=") for text in chosen.set)}
    wanted = Wanted(chosen.folder, ("robust",), pairs=PAIRS, settings=settings, workers=chosen.workers)
    rows = list(compared(wanted, ROOT))
    cases = {_name(row): _case(row) for row in rows}
    if chosen.against.is_file():
        known = json.loads(chosen.against.read_text(encoding="utf-8"))
        print("\n".join(changes(known, cases)))
    if chosen.keep is not None:
        lines = [
            f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}" for name, case in cases.items()
        ]
        chosen.keep.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(figures(rows))


def _name(row: Row) -> str:
    system = "shop" if row["recording"].startswith("online-boutique") else "tickets"
    about = row["case"] if row["kind"] == "fault" else f"{row['reference'][11:19]}|{row['problem'][11:19]}"
    return f"{system} {row['mode']} {row.get('visible', 'quiet')} {about}"


def _case(row: Row) -> Case:
    case = {"results": row["results"], "outcome": row["outcome"], "exit": row["exit_code"]}
    case |= {"rank": row["rank"]} if row["kind"] == "fault" else {}
    return case | ({"first": row["top"][0]["text"]} if row["top"] else {})


def changes(known: dict[str, Case], cases: dict[str, Case]) -> list[str]:
    """Lines that say which cases differ, and in what; a first result that is worded in another way is one."""
    found = []
    for name in dict.fromkeys([*known, *cases]):
        old, new = known.get(name, {}), cases.get(name, {})
        if unlike := [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]:
            found.append(f"{name}: " + ", ".join(f"{key} {old.get(key)} → {new.get(key)}" for key in unlike))
    return [*found, f"{len(found)} of {len(cases)} cases differ"]


def figures(rows: Sequence[Row]) -> str:
    """First places, results a fault, quiet pairs with a result: by recording and mode."""
    parts = []
    for recording in dict.fromkeys(row["recording"] for row in rows):
        for mode in dict.fromkeys(row["mode"] for row in rows):
            there = [row for row in rows if (row["recording"], row["mode"]) == (recording, mode)]
            seen = [row for row in there if row.get("visible") == "visible"]
            told = [f"first {sum(row['rank'] == 1 for row in seen)}/{len(seen)} ({_mean(seen)} a fault)"]
            if unseen := [row for row in there if row.get("visible") == "invisible"]:
                told.append(f"invisible {_mean(unseen)}")
            quiet = [row for row in there if row["kind"] == "quiet"]
            told.append(f"quiet {_mean(quiet)}")
            parts.append(f"{recording.partition('-20')[0]} {mode}: {', '.join(told)}")
    bad = f"passed unseen {sum(map(passed_unseen, rows))}, crashed {sum(map(crashed, rows))}"
    return "; ".join([*parts, bad])


def _mean(rows: Sequence[Row]) -> str:
    return f"{sum(row['results'] for row in rows) / max(1, len(rows)):.2f}"


if __name__ == "__main__":
    main()
