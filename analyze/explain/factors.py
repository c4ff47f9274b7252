"""Test host, version, any attribute of few values as a factor of a change at one call site.

"All of it on host dn-001": inside the problem, a site's values at one level of an attribute are compared with
those elsewhere, root type by root type, after each level's own reference has been taken off. A host that was
always slower is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from analyze.explain.chosen_requests import chosen_rows
from analyze.explain.columns import REQUEST, TYPE, AttributeColumn, request_columns
from analyze.population import Population
from analyze.stats.multiple import q_values
from analyze.stats.rank import midranks
from schemas.arrays import B1, F8, I4, I8
from schemas.report.findings import Factor, Unit

_NORMAL_FROM: Final = 12
"""Requests at the level, and elsewhere, from which the rank sum is taken as normal; below it is permuted."""
_CELLS_AT_ONCE: Final = 1 << 22


class Attribute(NamedTuple):
    """An attribute of every request of a site."""

    name: str
    """As shown: `host of sn`, `version`."""
    codes: I4
    """[requests] index into `words`; -1 unknown."""
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactorSettings:
    """When a level of an attribute is a factor."""

    q: float = 0.01
    """Benjamini-Hochberg over all levels of all attributes of the call."""
    least_requests: int = 4
    """Of the problem, at the level and elsewhere."""
    least_reference: int = 8
    """Of the reference, for a level's own centre; with fewer it is the root type's."""
    ratio: float = 2.0
    """So many times the effect elsewhere must the effect at the level be."""
    least_share: float = 0.2
    """Of the whole change, that the level carries."""
    most_levels: int = 50
    """Of an attribute; one of more is no factor."""
    most: int = 5
    """Factors that are given."""
    perms: int = 1999
    seed: int = 0


def factors(
    values: F8,
    problem: B1,
    strata: I4,
    attributes: Sequence[Attribute],
    *,
    unit: Unit,
    settings: FactorSettings | None = None,
) -> tuple[Factor, ...]:
    """Levels at which the change of a site's values is, and elsewhere is not; those that carry most first.

    values: [requests] one value a request of both periods (NaN: it does not reach the site). problem:
    [requests] which are of the problem. strata: [requests] root type. Effects are median (µs) or mean
    changes against the reference of the same root type and level. The test is van Elteren's rank sum over
    root types, two-sided; at few requests its permutation law. `Factor.p` is adjusted for all levels.
    Vectorised over levels; O(requests log requests · attributes).
    """
    asked = FactorSettings() if settings is None else settings
    known = ~np.isnan(values)
    values, problem, strata = values[known], problem[known], strata[known]
    found: list[tuple[float, float, Factor]] = []
    for attribute in attributes:
        codes = attribute.codes[known]
        found += _of_attribute(attribute.name, codes, attribute.words, values, problem, strata, unit, asked)
    if not found:
        return ()
    q = q_values(np.array([p for p, _, _ in found]))
    kept = [
        (share, factor.model_copy(update={"p": float(one)}))
        for one, (_, share, factor) in zip(q, found, strict=True)
        if one <= asked.q and share >= asked.least_share and _stands_out(factor, asked)
    ]
    kept.sort(key=lambda pair: (-pair[0], pair[1].p, pair[1].attribute, pair[1].value))
    return tuple(factor for _, factor in kept[: asked.most])


def _of_attribute(
    name: str,
    codes: I4,
    words: tuple[str, ...],
    values: F8,
    problem: B1,
    strata: I4,
    unit: Unit,
    settings: FactorSettings,
) -> list[tuple[float, float, Factor]]:
    """(p, share of the change, factor) of every level that can be tested."""
    known = codes >= 0
    n = np.bincount(codes[problem & known], minlength=len(words))
    total = int((problem & known).sum())
    testable = np.flatnonzero((n >= settings.least_requests) & (total - n >= settings.least_requests))
    if len(testable) == 0:
        return []
    by_median = unit == "us"
    change = values - _centre_before(values, problem, strata, codes, len(words), by_median, settings)
    mine = problem & known
    p = _p_values(values[known], problem[known], codes[known], len(words), strata[known], testable, settings)
    change, codes = change[mine], codes[mine]
    here = _centres(change, codes, len(words), by_median=by_median)
    sums = np.bincount(codes, change, len(words))
    out = []
    for level, one in zip(testable, p, strict=True):
        rest = change[codes != level]
        elsewhere = float(np.median(rest) if by_median else rest.mean())
        parts = n[level] * here[level], (total - n[level]) * elsewhere
        gross = abs(parts[0]) + abs(parts[1])
        with_sign = np.sign(sums.sum()) * np.sign(here[level]) >= 0
        share = abs(parts[0]) / gross if gross > 0 and with_sign else 0.0
        factor = Factor(
            attribute=name,
            value=words[int(level)],
            requests1=int(n[level]),
            effect_here=float(here[level]),
            effect_elsewhere=elsewhere,
            unit=unit,
            p=float(one),
        )
        out.append((float(one), float(share), factor))
    return out


def _stands_out(factor: Factor, settings: FactorSettings) -> bool:
    return abs(factor.effect_here) >= settings.ratio * abs(factor.effect_elsewhere)


def _centre_before(
    values: F8, problem: B1, strata: I4, codes: I4, n_levels: int, by_median: bool, settings: FactorSettings
) -> F8:
    """[requests] the reference's centre at the same root type and level, or else at the root type.

    Where the reference never saw the root type, its centre in the problem: levels are then compared with
    each other alone.
    """
    n_strata = int(strata.max(initial=-1)) + 1
    before = ~problem
    rough = _centres(values[before], strata[before], n_strata, by_median=by_median)
    own = _centres(values[problem], strata[problem], n_strata, by_median=by_median)
    rough = np.where(np.isnan(rough), own, rough)
    cell = strata.astype(np.int64) * (n_levels + 1) + codes + 1
    n_cells = n_strata * (n_levels + 1)
    fine = _centres(values[before], cell[before], n_cells, by_median=by_median)
    enough = np.bincount(cell[before], minlength=n_cells) >= settings.least_reference
    out: F8 = np.where(enough[cell], fine[cell], rough[strata])
    return out


def _centres(values: F8, group: npt.NDArray[np.integer], n: int, *, by_median: bool) -> F8:
    """[n] median or mean of each group; NaN for an empty one."""
    size = np.bincount(group, minlength=n)
    if not by_median:
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: F8 = np.bincount(group, values, n) / size
        return mean
    out = np.full(n, np.nan)
    there = np.flatnonzero(size)
    ordered = values[np.lexsort((values, group))]
    first = np.cumsum(size)[there] - size[there]
    out[there] = (ordered[first + (size[there] - 1) // 2] + ordered[first + size[there] // 2]) / 2
    return out


class RankSums(NamedTuple):
    """Stratified rank sums of one period."""

    score: F8
    """[requests] rank inside the stratum / (its size + 1) - 1/2."""
    statistic: F8
    """[levels] sum of scores."""
    variance: F8
    """[levels] of the statistic, if levels were drawn at random inside strata."""
    n: F8
    """[levels] requests."""


def rank_sums(values: F8, codes: I4, n_levels: int, strata: I4) -> RankSums:
    """Van Elteren's rank sums of every level against all others.

    Ranks inside a stratum are divided by its size + 1, so that strata count by what they tell; ties share
    ranks and the variance is that of the ranks as they are.
    """
    n_strata = int(strata.max(initial=-1)) + 1
    size = np.bincount(strata, minlength=n_strata).astype(np.float64)
    # Ranks of all strata by one sort: strata apart, ties alike.
    _, dense = np.unique(values, return_inverse=True)
    ranks = midranks(strata.astype(np.int64) * (int(dense.max(initial=0)) + 1) + dense)
    before = np.cumsum(size) - size
    score = (ranks - before[strata]) / (size[strata] + 1) - 0.5
    square = np.bincount(strata, score**2, n_strata)  # the mean score of a stratum is 0
    cells = np.bincount(codes.astype(np.int64) * n_strata + strata, minlength=n_levels * n_strata)
    n_here = cells.reshape(n_levels, n_strata).astype(np.float64)
    spread = square / np.maximum(size - 1, 1) / np.maximum(size, 1)
    variance = (n_here * (size - n_here) * spread).sum(axis=1)
    statistic = np.bincount(codes, score, n_levels).astype(np.float64)
    return RankSums(score, statistic, variance, n_here.sum(axis=1))


def _p_values(
    values: F8, problem: B1, codes: I4, n_levels: int, strata: I4, levels: I8, settings: FactorSettings
) -> F8:
    """[levels] two-sided p that the level stands in the problem where it stood in the reference.

    What is compared is its mean score, and ranks are of one period: neither a change of all levels nor a
    level that was always slow moves it. A level that the reference hardly knows is expected in the middle.
    """
    sides = [
        (rows, rank_sums(values[rows], codes[rows], n_levels, strata[rows])) for rows in (problem, ~problem)
    ]
    (_, after), (_, prior) = sides
    enough = prior.n[levels] >= settings.least_reference
    scale1 = 1 / after.n[levels]
    scale0 = np.where(enough, 1 / np.maximum(prior.n[levels], 1), 0.0)
    shift = after.statistic[levels] * scale1 - prior.statistic[levels] * scale0
    variance = after.variance[levels] * scale1**2 + prior.variance[levels] * scale0**2
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(variance > 0, shift / np.sqrt(variance), 0.0)
    p: F8 = 2 * ndtr(-np.abs(z))
    few = np.minimum(after.n[levels], after.n.sum() - after.n[levels]) < _NORMAL_FROM
    few |= enough & (prior.n[levels] < _NORMAL_FROM)
    if few.any():
        rng = np.random.default_rng(settings.seed)
        drawn = np.zeros((settings.perms, int(few.sum())))
        for sign, scale, (rows, sums) in zip((1, -1), (scale1, scale0), sides, strict=True):
            if rows.any():
                hit = codes[rows][:, None] == levels[few]
                drawn += sign * scale[few] * _shuffled(sums.score, hit, strata[rows], settings.perms, rng)
        as_large = (np.abs(drawn) >= np.abs(shift[few]) - 1e-9).sum(axis=0)
        p[few] = (1 + as_large) / (settings.perms + 1)
    return p


def _shuffled(score: F8, hit: B1, strata: I4, perms: int, rng: np.random.Generator) -> F8:
    """[perms, levels] sums of the scores at each level when scores are shuffled inside strata."""
    rows = np.argsort(strata, kind="stable")
    weight = hit[rows].astype(np.float64)
    out = np.zeros((perms, hit.shape[1]))
    step = max(1, _CELLS_AT_ONCE // len(rows))
    for first in range(0, perms, step):
        keys = rng.random((min(step, perms - first), len(rows))) + strata[rows]
        out[first : first + step] = score[rows][np.argsort(keys, axis=1)] @ weight
    return out


def factor_attributes(
    population: Population,
    category: I4,
    row: I8,
    *,
    component: str | None = None,
) -> tuple[Attribute, ...]:
    """Attributes of requests given by category index and row, [requests] each, in their order.

    component: of hosts only this one's and the entry host. Attributes of one value, or of more than
    `most_levels`, are left out.
    """
    order = np.lexsort((row, category))
    chosen = chosen_rows(population, category[order], row[order])
    columns = [c for c in request_columns(population, chosen) if c.where != REQUEST or c.key != TYPE]
    if component is not None:
        columns = [c for c in columns if c.where in (REQUEST, component)]
    most = FactorSettings().most_levels
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    found = (
        _attribute(column, back)
        for column in columns
        if column.levels is not None and column.aggregate in ("", "first")
    )
    return tuple(attribute for attribute in found if 1 < len(attribute.words) <= most)


def _attribute(column: AttributeColumn, back: I8) -> Attribute:
    codes = np.where(np.isnan(column.values), -1, column.values).astype(np.int32)[back]
    name = column.key if column.where == REQUEST else f"{column.key} of {column.where}"
    return Attribute(name, codes, column.levels or ())
