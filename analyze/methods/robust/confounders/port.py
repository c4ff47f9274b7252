"""Define what a confounder is: something other than the service that may explain a change.

To add one: a class of its kind in a file of its own, and a row in `registry.CONFOUNDERS`; it says
itself which case fails without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison, Noticed

Kind = Literal["quality", "skew", "load", "labels", "history"]


@dataclass(frozen=True, slots=True)
class Explained:
    """Significant changes that something explains, and that are therefore not findings."""

    kind: Kind
    """Kind of the row under data quality."""
    text: str
    """One sentence or two, with the size."""
    changes: tuple[Change, ...] = ()
    severe: bool = False
    """True if the findings that are left may be incomplete."""
    hidden_paths: float = 0.0
    """Share of a path that could be its doing."""


class Confounder(ABC):
    """A row of `registry.CONFOUNDERS`."""

    name: str
    doc: str
    """Purpose in one sentence."""
    case: str
    """The case that fails without it."""
    state: ClassVar[type[Noticed] | None] = None
    """Class of what it notices where it adjusts a comparison; None: it adjusts none."""

    def adjust(self, comparison: Comparison) -> Comparison:
        """Give the comparison as it is without the confounder, where that can be done; else as it is."""
        return comparison

    @abstractmethod
    def explains(self, changes: Sequence[Change], comparison: Comparison, /) -> Explained | None:
        """Tell which of the changes it explains; None where it was not there."""


def counted_changes(changes: Sequence[Change]) -> str:
    """Count changes in words: `3 changes at 2 call sites`."""
    sites = len({change.site for change in changes})
    noun = "change" if len(changes) == 1 else "changes"
    where = "call site" if sites == 1 else "call sites"
    return f"{len(changes)} {noun} at {sites} {where}"
