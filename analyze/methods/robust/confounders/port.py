"""Define a confounder: a possible cause of changes other than the service.

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
    """Significant changes that a confounder explains, which therefore become no findings."""

    kind: Kind
    """Kind of the row under data quality."""
    text: str
    """Sentences, one or two, with the size of the effect."""
    changes: tuple[Change, ...] = ()
    severe: bool = False
    """True if the remaining findings may be incomplete."""
    hidden_paths: float = 0.0
    """Largest share of a path that the confounder could move unseen."""


class Confounder(ABC):
    """A possible cause of changes other than the service: a row of `registry.CONFOUNDERS`."""

    name: str
    doc: str
    """Purpose in one sentence."""
    case: str
    """The test case that fails without it."""
    state: ClassVar[type[Noticed] | None] = None
    """Class of the state that `adjust` stores; None: it adjusts nothing."""

    def adjust(self, comparison: Comparison) -> Comparison:
        """Remove the confounder from the comparison where possible; by default return it unchanged."""
        return comparison

    @abstractmethod
    def explains(self, changes: Sequence[Change], comparison: Comparison, /) -> Explained | None:
        """Take the changes that the confounder explains; None if it does not occur in the comparison."""


def counted_changes(changes: Sequence[Change]) -> str:
    """Number of changes in words: `3 changes at 2 call sites`."""
    sites = len({change.site for change in changes})
    noun = "change" if len(changes) == 1 else "changes"
    where = "call site" if sites == 1 else "call sites"
    return f"{len(changes)} {noun} at {sites} {where}"
