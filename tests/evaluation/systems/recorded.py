"""Record the described systems as the labelled recordings are: files of traces, and a `cases.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evaluation.store import fingerprint
from evaluation.systems.described import SYSTEMS
from evaluation.systems.playing import WINDOW_NS, Playing, System

from schemas.windows import NS_PER_DAY

NS_PER_S = 10**9
T0 = 20_758 * NS_PER_DAY
APART_NS = 2 * WINDOW_NS
"""From window to window."""
HISTORY, QUIET = 10, 13
"""Windows without a fault: after those of history comes the reference."""


def recorded(root: Path, seed: int = 0) -> Path:
    """The folder of all systems, kept under `.cache/systems` for as long as their description is the same."""
    folder = root / ".cache" / "systems" / f"{fingerprint(root, ('tests/evaluation/systems',))}-{seed}"
    if not folder.is_dir():
        record(folder, seed)
    return folder


def record(folder: Path, seed: int = 0, systems: Sequence[System] = SYSTEMS) -> None:
    """Write every system's windows, and what is true of them; `folder` is whole or not there."""
    part = folder.with_name(f".{folder.name}-{os.getpid()}")
    part.mkdir(parents=True, exist_ok=True)
    listed = [_record(system, part, seed) for system in systems]
    (part / "cases.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    part.rename(folder)


def _record(system: System, folder: Path, seed: int) -> dict[str, object]:
    name = f"{system.name}.spans.jsonl"
    with (folder / name).open("w", encoding="utf-8") as file:
        for window, fault in enumerate([*[None] * QUIET, *system.faults]):
            playing = Playing(system, fault, window, T0 + window * APART_NS, seed)
            playing.play()
            file.write(playing.document(system.form) + "\n")
    return {
        "recording": name,
        "quiet": [period(window) for window in range(QUIET)],
        "cases": [
            {
                "id": f"{system.name}/{fault.what}",
                "service": fault.service,
                "type": "made",
                "problem": period(QUIET + number),
                "reference": period(HISTORY),
                "visible": True,
            }
            for number, fault in enumerate(system.faults)
        ],
    }


def period(window: int) -> str:
    """An ISO range."""
    begin = (T0 + window * APART_NS) // NS_PER_S
    sides = (datetime.fromtimestamp(at, UTC) for at in (begin, begin + WINDOW_NS // NS_PER_S))
    return "/".join(f"{side:%Y-%m-%dT%H:%M:%SZ}" for side in sides)
