"""Fill the section `browse-variance`: C² of large categories, of all and by root type (H.3)."""

from __future__ import annotations

from typing import Final

import numpy as np

from analyze.population import Population
from analyze.stats.moments import HIGH, LARGE, SampleMoments, c2_curve
from schemas.arrays import F8
from schemas.report.browse import BrowseVarianceSection, RootVariance

_MOST_ROOTS: Final = 40


def c2_section(population: Population, moments: SampleMoments) -> BrowseVarianceSection:
    """The section."""
    with np.errstate(invalid="ignore", divide="ignore"):
        c2: F8 = moments.variance_us2 / moments.mean_us**2
    large = moments.count > LARGE
    last = len(population.samples) - 1
    roots: dict[str, list[int]] = {}
    for number in np.flatnonzero(large[last] & np.isfinite(c2[last])).tolist():
        roots.setdefault(population.categories[number].graph.root, []).append(number)
    rows = [
        RootVariance(
            root=root,
            requests=int(moments.count[last, numbers].sum()),
            categories=len(numbers),
            below_one=float((c2[last, numbers] < HIGH).mean()),
            largest=float(c2[last, numbers].max()),
        )
        for root, numbers in roots.items()
    ]
    rows.sort(key=lambda row: (-row.requests, row.root))
    return BrowseVarianceSection(
        curves=tuple(
            c2_curve(sample.name, c2[number][large[number]], moments.count[number][large[number]])
            for number, sample in enumerate(population.samples)
        ),
        roots=tuple(rows[:_MOST_ROOTS]),
        roots_total=len(rows),
    )
