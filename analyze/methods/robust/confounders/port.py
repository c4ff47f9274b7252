"""Interface of a confounder: a possible cause of changes other than the service.

To add one: a class in a file of its own, and a row in `registry.CONFOUNDERS`; its `case` names the test that
fails without it.
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
    """Significant changes that a confounder explains, and that therefore do not become findings."""

    kind: Kind
    """Kind of the report's row under data quality."""
    text: str
    """Sentences for the report, one or two, with the size of the effect."""
    changes: tuple[Change, ...] = ()
    severe: bool = False
    """True if findings may be missing because of the confounder."""
    hidden_paths: float = 0.0
    """Largest change of a path's share, in [0, 1], that the confounder could hide."""


class Confounder(ABC):
    """A possible cause of changes other than the service; instances are rows of `registry.CONFOUNDERS`."""

    name: str
    doc: str
    """Description of the confounder in one sentence, for documentation."""
    case: str
    """Test case that fails without the confounder."""
    state: ClassVar[type[Noticed] | None] = None
    """Class of the state that `adjust` stores in the comparison; None if it adjusts nothing."""

    def adjust(self, comparison: Comparison) -> Comparison:
        """Remove the confounder's effect from the comparison where possible; the default returns it
        unchanged."""
        return comparison

    @abstractmethod
    def explains(self, changes: Sequence[Change], comparison: Comparison, /) -> Explained | None:
        """Find the changes that the confounder explains; None if the confounder does not occur in the
        comparison."""


def counted_changes(changes: Sequence[Change]) -> str:
    """Number of changes as text: `3 changes at 2 call sites`."""
    sites = len({change.site for change in changes})
    noun = "change" if len(changes) == 1 else "changes"
    where = "call site" if sites == 1 else "call sites"
    return f"{len(changes)} {noun} at {sites} {where}"
