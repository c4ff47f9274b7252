"""A section of a report: what every one has. Its own fields are those of a model a section.

Sections are told apart by the tag `section`. The set is open: a method may bring a section of its own, and
who reads a report without knowing it gets a `ForeignSection` that is written back as it was.
"""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict

from schemas.report.parts import Frozen


class Section(Frozen):
    """Base of all sections; a section fixes `section` to a Literal with itself as the default."""

    section: str
    """Which section it is."""
    method: str = ""
    """Name of the method that found it; filled in by the run."""

    def content(self) -> Self:
        """The section without what depends on where it was made: what a report's id is of."""
        return self


class ForeignSection(Section):
    """A section of a method that is not installed here: its fields as they were read."""

    model_config = ConfigDict(extra="allow")
