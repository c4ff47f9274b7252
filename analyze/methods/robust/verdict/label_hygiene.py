"""Find names with ids in them: root types or components nearly as many as traces.

`User: fs -mkdir dir_17` is another root type for every directory, and nothing can be compared. This finds the
parts that differ (quoted words, UUIDs, hexadecimal and long mixed ids, numbers), says how many names would be
left without them, and gives a rule that a collector can apply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from analyze.methods.robust.verdict.settings import VerdictSettings
from analyze.refine.name_folding import MARK, PARTS, IdKind

MOST_NAMES: Final = 20_000
"""Names looked at; of more, an even choice. 20,000 names of 256 bytes take 0.3 s."""
MOST_CHARACTERS: Final = 256


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A proposal."""

    what: tuple[str, ...]
    """Which parts of names it replaces, in words."""
    pattern: str
    """Regular expression; each match becomes MARK."""
    before: int
    """Names as they are."""
    after: int
    """Names that would be left."""
    example: tuple[str, str]
    """A name, and what becomes of it."""

    @property
    def rule(self) -> str:
        """One line for a person or a stream editor: `s/PATTERN/#/g`."""
        return f"s/{self.pattern.replace('/', chr(92) + '/')}/{MARK}/g"

    def clean(self, name: str) -> str:
        """Give the name with every match replaced."""
        return re.sub(self.pattern, MARK, name)


@dataclass(frozen=True, slots=True)
class Hygiene:
    """What is wrong with names of one kind."""

    names: int
    traces: int
    cleaning: Cleaning | None
    """None: no pattern would help."""


def label_hygiene(names: Sequence[str], traces: int, settings: VerdictSettings) -> Hygiene | None:
    """Judge distinct names of one kind (root types, components) of so many traces; None where they are fine.

    Duplicates count once. O(characters), bounded by MOST_NAMES · MOST_CHARACTERS.
    """
    distinct = sorted(set(names))
    if len(distinct) < settings.names_least or len(distinct) < settings.names_many * traces:
        return None
    return Hygiene(len(distinct), traces, propose_cleaning(distinct, settings.names_many))


def propose_cleaning(names: Sequence[str], most: float) -> Cleaning | None:
    """Find the pattern with the fewest parts that leaves as few names as all parts together.

    None where even those leave more than the part `most` of the names. Names past MOST_NAMES are represented
    by an even choice; a pattern that is proposed is then counted on the choice and scaled up.
    """
    distinct = sorted(set(names))
    chosen = distinct[:: -(-len(distinct) // MOST_NAMES) or 1]
    cut = [name[:MOST_CHARACTERS] for name in chosen]
    parts = list(PARTS)
    left = _left(cut, parts)
    if not cut or left > most * len(cut):
        return None
    for part in PARTS:  # drop what is not needed, the most special first
        fewer = [other for other in parts if other is not part]
        if fewer and _left(cut, fewer) == left:
            parts = fewer
    pattern = _joined(parts)
    scale = len(distinct) / len(cut)
    shown = next(name for name in cut if re.search(pattern, name))
    return Cleaning(
        what=tuple(part.what for part in parts),
        pattern=pattern,
        before=len(distinct),
        after=max(1, round(_left(cut, parts) * scale)) if scale > 1 else _left(cut, parts),
        example=(shown, re.sub(pattern, MARK, shown)),
    )


def _joined(parts: Sequence[IdKind]) -> str:
    return "|".join(part.pattern for part in parts)


def _left(names: Sequence[str], parts: Sequence[IdKind]) -> int:
    """Number of different names after cleaning."""
    pattern = re.compile(_joined(parts))
    return len({pattern.sub(MARK, name) for name in names})
