"""The requests that findings affect, as the report's table `requests`: what exports and joins read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.robust.site_requests import AtSite
from analyze.population import Population
from schemas.arrays import I4, I8
from schemas.report.columns import arrow_columns, arrow_table
from schemas.report.report_tables import REQUESTS

MOST_LISTED: Final = 50_000
"""Requests of a finding that are listed, evenly spaced over all."""
_ROLE: Final = "affected"


@dataclass(frozen=True, slots=True)
class AffectedRequests:
    """Requests of one finding, ascending by (category, row); arrays are [listed]."""

    category: I4
    row: I8
    total: int
    """Before they were cut."""

    def by_category(self) -> Iterator[tuple[int, I8]]:
        """(category, its rows)."""
        numbers, first = np.unique(self.category, return_index=True)
        yield from zip(numbers.tolist(), np.split(self.row, first[1:]), strict=False)


def affected_rows(at: Sequence[AtSite], most: int = MOST_LISTED) -> AffectedRequests:
    """Those with what the change is about, of both periods."""
    category = np.concatenate(
        [np.zeros(0, np.int32), *(np.full(int(f.hit.sum()), f.category, np.int32) for f in at)]
    )
    row = np.concatenate([np.zeros(0, np.int64), *(found.rows[found.hit] for found in at)])
    order = np.lexsort((row, category))
    total = len(order)
    if total > most:
        order = order[np.linspace(0, total - 1, most).astype(np.int64)]
    return AffectedRequests(category[order], row[order], total)


def requests_table(population: Population, findings: Sequence[AffectedRequests]) -> pa.Table:
    """Make rows of REQUESTS, by rank; empty where no request is at hand."""
    parts = [
        _rows(population, rank, number, rows)
        for rank, found in enumerate(findings, 1)
        for number, rows in found.by_category()
    ]
    return pa.concat_tables(parts) if parts else arrow_table(REQUESTS, ())


def cut_notes(findings: Sequence[AffectedRequests]) -> tuple[str, ...]:
    """One sentence where requests are not listed."""
    cut = [str(rank) for rank, found in enumerate(findings, 1) if len(found.row) < found.total]
    if not cut:
        return ()
    noun = "finding" if len(cut) == 1 else "findings"
    return (f"Of {noun} {', '.join(cut)} {MOST_LISTED:,} affected requests are listed, evenly spaced.",)


def _rows(population: Population, rank: int, number: int, rows: I8) -> pa.Table:
    category, n = population.categories[number], len(rows)
    names = pa.array([sample.name for sample in population.samples], pa.string())
    return arrow_columns(
        REQUESTS,
        rank=np.full(n, rank),
        role=pa.repeat(_ROLE, n),
        category=pa.repeat(category.graph.key, n),
        sample=names.take(pa.array(category.sample[rows])),
        request_id=category.request_id.take(pa.array(rows)),
        kind=pa.repeat(category.graph.kind, n),
    )
