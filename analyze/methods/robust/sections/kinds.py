"""Section on root types and operations that occur in only one of the periods: new and gone ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.robust.robust_run import RobustRun
from analyze.profile.names import NO_CALLER, SiteKind
from analyze.report import blocks as b
from analyze.report.section_view import SectionView
from analyze.stats.proportions import fisher
from analyze.stats.sums import totals
from schemas.arrays import B1, F8
from schemas.report.columns import arrow_table, columns_of
from schemas.report.kinds import KINDS, KindRow, KindsSection
from schemas.windows import NS_PER_US
from stitch.graph.placed import NO_COMPONENT

SHOWN: Final = 20
"""Maximum number of rows shown in the section; the table `kinds` has all rows."""
_RULE_OF_THREE: Final = 3.0


def kinds_section(run: RobustRun) -> tuple[KindsSection, pa.Table]:
    """Fill the section: (section with at most SHOWN rows, table of all rows)."""
    rows = sorted(
        _rows(run), key=lambda row: (row.state != "new", -row.failing * row.requests, -row.requests, row.name)
    )
    return KindsSection(kinds=tuple(rows[:SHOWN]), kinds_total=len(rows)), arrow_table(KINDS, rows)


def _rows(run: RobustRun) -> Iterator[KindRow]:
    """Yield a row for each root type and operation that occurs in only one period; an operation whose caller
    also occurs in only one is left out."""
    names, profile, roles = run.profile.names, run.profile, run.roles
    calls = np.array([site.kind is SiteKind.CALL for site in names.sites], dtype=np.bool_)
    root = calls & np.array([site.caller == NO_CALLER for site in names.sites], dtype=np.bool_)
    operation = np.array([site.operation for site in names.sites], dtype=np.int64)

    def visits(column: str, slots: B1, sites: B1) -> F8:
        value = profile.at_sites("visits", column, slots)
        return totals(operation[sites], value[sites], len(names.operations))

    for what, sites in (("root", root), ("operation", calls)):
        n = [visits("n", slots, sites) for slots in (roles.ordinary, roles.problem)]
        requests = [profile.responded("n", slots) for slots in (roles.ordinary, roles.problem)]
        alone = [(n[side] >= run.settings.least_affected) & (n[1 - side] == 0) for side in (0, 1)]
        for side in (1, 0):
            slots = roles.problem if side else roles.ordinary
            failing, weight, response = (
                visits(column, slots, sites) for column in ("failing_n", "w", "response_ns")
            )
            for at in np.flatnonzero(alone[side] & (_by_chance(n, requests) <= run.settings.q)).tolist():
                callers = {s.caller for s in names.sites if s.operation == at} - {NO_CALLER, at}
                inside = any(alone[side][caller] for caller in callers)
                if what == "operation" and (inside or not callers):
                    continue
                name = names.operations[at]
                if name.component == NO_COMPONENT:  # placeholder for lost spans
                    continue
                yield KindRow(
                    state="new" if side else "gone",
                    what="root" if what == "root" else "operation",
                    name=f"{name.component}/{name.point}{f' -> {name.callee}' if name.callee else ''}",
                    requests=round(min(n[side][at], requests[side])),
                    failing=float(min(failing[at] / n[side][at], 1.0)),
                    mean_us=float(response[at] / weight[at]) / NS_PER_US if weight[at] else None,
                    most_share=float(min(_RULE_OF_THREE / max(requests[1 - side], 1.0), 1.0)),
                )


def _by_chance(n: Sequence[F8], requests: Sequence[float]) -> F8:
    """float64[operations]: probability that all requests with the operation lie in one period by chance
    (Fisher's exact test).

    n: number of requests with each operation, in (baseline, problem); requests: number of all requests in
    (baseline, problem).
    """
    counts = [np.rint(np.minimum(mine, of)).astype(np.int64) for mine, of in zip(n, requests, strict=True)]
    of = [np.full_like(mine, round(total)) for mine, total in zip(counts, requests, strict=True)]
    return fisher(counts[0], of[0], counts[1], of[1]).p


_COLUMNS: Final = (*columns_of(KindRow, "state", "name", "requests", "failing", "mean_us", "most_share"),)


def kinds_blocks(section: KindsSection) -> b.Blocks:
    """Display of the section; empty if there are no rows."""
    if not section.kinds:
        return ()
    return (
        b.Part(
            "New and gone",
            (b.Grid("Kinds", _COLUMNS, section.kinds, total=section.kinds_total, stored="kinds"),),
            note="root types and operations that one period alone has; no test of a change reaches them",
            anchor="kinds",
        ),
    )


KINDS_VIEW: Final = SectionView(KindsSection, kinds_blocks)
