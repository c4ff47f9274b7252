"""Section `suspects`: places to investigate when nothing is significant. They are no findings, so gates
ignore them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from schemas.report.columns import Inside, column, columns_of
from schemas.report.findings import After, Before, ChangeKind, OfUnit, Site
from schemas.report.parts import Frozen, Section


class Suspect(Frozen):
    """A place whose change is large against ordinary variation, but not significant."""

    rank: Annotated[int, column("place", "from 1, most suspect first")]
    kind: Annotated[ChangeKind, column("text", "what may have happened: slower, errors, new-path, …")]
    site: Annotated[Site, Inside()]
    title: Annotated[str, column("text", "what was measured, in a sentence")]
    suspect: Annotated[
        str, column("name", "component to look at first where it is another one; or empty")
    ] = ""
    unit: OfUnit
    before: Before
    after: After
    requests0: Annotated[int, column("count", "requests of the reference that reach the call site")]
    requests1: Annotated[int, column("count", "requests of the problem that reach the call site")]
    z: Annotated[float, column("ratio", "change over its standard error, ordinary variation included")]
    z_needed: Annotated[float, column("ratio", "the same from which it would count, by itself")]
    p: Annotated[float, column("p", "p-value against ordinary times")]
    part_us: Annotated[
        float, column("change", "part of the change of the mean, µs a request, shrunk by its own noise")
    ]
    requests_needed: Annotated[
        int | None,
        column(
            "count", "requests of the problem at the call site that would settle it; null: no number would"
        ),
    ]
    """Number of problem requests at the call site that would make the change significant, if the reference
    grew by as much and the estimate held; None: no number would.
    """
    is_hidden: Annotated[
        bool, column("flag", "it is significant against the reference alone, and ordinary times hide it")
    ] = False


class SuspectsSection(Section):
    """Up to three suspects, the most suspect first."""

    section: Literal["suspects"] = "suspects"
    suspects: tuple[Suspect, ...]


SUSPECTS: Final = columns_of(Suspect)
"""Columns of the table `suspects`, one row a suspect."""
