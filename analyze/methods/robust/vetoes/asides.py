"""What was seen by test and is no finding: why, how much, and the changes themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyze.methods.robust.changes import Change

Reason = Literal["loss", "clock", "load", "rename"]


@dataclass(frozen=True, slots=True)
class Aside:
    """Changes with one reason outside of the service, told in one sentence."""

    reason: Reason
    text: str
    """One sentence or two, with the size."""
    changes: tuple[Change, ...] = ()
    severe: bool = False
    """What is left cannot be believed to be all there is."""


def counted_changes(changes: tuple[Change, ...]) -> str:
    """`3 changes at 2 places`."""
    places = len({change.site for change in changes})
    noun = "change" if len(changes) == 1 else "changes"
    where = "place" if places == 1 else "places"
    return f"{len(changes)} {noun} at {places} {where}"
