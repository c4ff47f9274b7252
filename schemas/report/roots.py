"""Section `roots`: the types of request there are."""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, Moments
from schemas.report.section import Section


class RootRow(Frozen):
    """All categories of one root type."""

    root: str
    before: Moments
    after: Moments


class RootsSection(Section):
    """Root types, busiest first."""

    section: Literal["roots"] = "roots"
    roots: tuple[RootRow, ...]
    roots_total: int
