"""Interface of a confounder: a possible cause of changes other than the service itself.

To add one, write a class in a file of its own and add an instance to `registry.CONFOUNDERS`; the attribute
`case` names the test that fails without it.
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
    """Significant changes that a confounder explains, so that they do not become findings, and a text about
    it."""

    kind: Kind
    """Kind of the row under data quality in which the report shows the text."""
    text: str
    """Sentence or two for the report, with the size of the confounder's effect."""
    changes: tuple[Change, ...] = ()
    severe: bool = False
    """True if findings may be missing because of the confounder; the report then puts its row first."""
    hidden_paths: float = 0.0
    """Largest change of the share of a call pattern, in [0, 1], that the confounder could hide."""


class Confounder(ABC):
    """Possible cause of changes other than the service; instances are elements of `registry.CONFOUNDERS`."""

    name: str
    doc: str
    """Description of the confounder in one sentence, for the table of rules."""
    case: str
    """Name of the test case that fails without the confounder."""
    state: ClassVar[type[Noticed] | None] = None
    """Class of the object that `adjust` stores in `Comparison.noticed`; None if the confounder adjusts
    nothing."""

    def adjust(self, comparison: Comparison) -> Comparison:
        """Remove the confounder's effect from the comparison where possible; by default returns it
        unchanged."""
        return comparison

    @abstractmethod
    def explains(self, changes: Sequence[Change], comparison: Comparison, /) -> Explained | None:
        """Select the changes that the confounder explains, with a text for the report; None if the confounder
        is not present in the comparison."""


def counted_changes(changes: Sequence[Change]) -> str:
    """Number of changes and call sites as text, e.g. `3 changes at 2 call sites`."""
    sites = len({change.site for change in changes})
    noun = "change" if len(changes) == 1 else "changes"
    where = "call site" if sites == 1 else "call sites"
    return f"{len(changes)} {noun} at {sites} {where}"
