"""Section `kinds`: root types and operations that occur in one period only, for which no change can be
tested."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from schemas.report.columns import column, columns_of
from schemas.report.parts import Frozen, Section


class KindRow(Frozen):
    """A root type or an operation that is new, or gone."""

    state: Annotated[
        Literal["new", "gone"], column("text", "new: 0 before; gone: 0 in the problem", label="State")
    ]
    what: Annotated[Literal["root", "operation"], column("text", "root type or operation", label="Kind")]
    name: Annotated[str, column("name", "what it is called", label="Name")]
    requests: Annotated[
        int, column("count", "requests that reach it, of the period that has it", label="Requests")
    ]
    failing: Annotated[float, column("share", "share of them in which it fails", label="Fail")]
    mean_us: Annotated[
        float | None, column("us", "mean response time of these requests; null: not known", label="Mean")
    ]
    most_share: Annotated[
        float,
        column(
            "share",
            "share of requests that it may have been in the other period, at 95 %",
            label="At most else",
        ),
    ]
    """Upper 95 % bound of the share of requests in the period in which the root type or operation does not
    occur: 3 / requests."""


class KindsSection(Section):
    """Root types and operations of one period only: new ones first, then by failed requests, then by
    requests.
    """

    section: Literal["kinds"] = "kinds"
    kinds: tuple[KindRow, ...]
    kinds_total: int


KINDS: Final = columns_of(KindRow)
"""Columns of the table `kinds`, one row per root type or operation that is new or gone, uncut."""
