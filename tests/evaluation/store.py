"""Finished trials on disk, so that a long evaluation can be stopped and taken up again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

MEASURED = ("schemas", "ingest", "stitch", "analyze", "simulator", "tests/evaluation")
SIMULATOR = ("simulator",)
"""Folders whose sources results, and the fit, depend on."""
RENDERING = frozenset(
    {
        *("page.py", "plots.py", "sections.py", "finding_sections.py", "summary.py"),
        *("run.py", "options.py", "store.py", "tiers.py", "floors.py", "quiet_pairs.py"),
        *("comparing.py", "kept_lakes.py", "labelled.py", "measuring.py", "moved.py", "verdicts.py"),
    }
)
"""Modules of the harness that results do not depend on."""


def fingerprint(root: Path, folders: tuple[str, ...]) -> str:
    """16 hex digits of the sources under `folders`, which may be files, too."""
    digest = blake2b(digest_size=8)
    for folder in folders:
        place = root / folder
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            is_test = path.name.startswith("test_") or path.name in RENDERING
            if path.suffix in (".py", ".sql") and not is_test:
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results, one JSON file each. A result of other sources counts as missing."""

    folder: Path
    sources: str

    def get(self, name: str) -> dict[str, Any] | None:
        """The result, or None."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            return None
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return kept["result"] if kept["sources"] == self.sources else None

    def put(self, name: str, result: dict[str, Any]) -> None:
        """Keep a result; a file is whole or not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.json"
        part = path.with_suffix(".tmp")
        part.write_text(json.dumps({"sources": self.sources, "result": result}, indent=1), encoding="utf-8")
        part.replace(path)
