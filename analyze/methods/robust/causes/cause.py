"""Define a cause: one symptom and what follows from it; a finding is made of each."""

from __future__ import annotations

from dataclasses import dataclass

from analyze.methods.robust.changes import Change


@dataclass(frozen=True, slots=True)
class Edge:
    """Why a symptom is no cause of its own."""

    changes: tuple[Change, ...]
    """The symptom."""
    of: Change
    """What leads the symptom that it follows from."""
    relation: str
    """Name of a row of RELATIONS."""
    follows: bool
    """It, or what it belongs to, is a consequence; else the same elsewhere, or another side."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What a finding is made of: one symptom and those that follow from it."""

    lead: Change
    operation: int
    component: str
    """To look at first."""
    changes: tuple[Change, ...]
    score: float
    suspect: str = ""
    """Component after whose call requests were cut short, or whose calls fail."""
    leads: tuple[Change, ...] = ()
    """The same change elsewhere: on other hosts, in other operations, at other callers; without the lead."""
    hosts: tuple[str, ...] = ()
    """Hosts on which the lead is, where sites tell hosts apart; the leading site's first."""
    spared: tuple[str, ...] = ()
    """Hosts on which the same site was tested and is as before."""
    edges: tuple[Edge, ...] = ()
    """What follows from what, and why: all changes but those of the leading symptom."""

    @property
    def follows(self) -> tuple[Change, ...]:
        """Changes among `changes` that are consequences of the lead."""
        return tuple(change for edge in self.edges if edge.follows for change in edge.changes)
