"""Find and rank all mutations of a population (NSDI §5, TR §5).

Structural mutations are found in `structural`, response-time mutations in `timing`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.methods.paper.settings import Distance, PaperSettings
from analyze.methods.paper.structural import (
    MutationCandidates,
    StructuralSets,
    candidates,
    distances,
    edge_sequence,
    similarity_weights,
    structural_contribution,
    structural_sets,
)
from analyze.methods.paper.timing import (
    KsTests,
    named_edge_tests,
    response_time_contribution,
    response_time_tests,
    text_tests,
)
from analyze.numbering import Numbering
from analyze.paths.critical_path import Attribution, attribute, critical_path, edge_latency_ns
from analyze.paths.moves import as_texts
from analyze.population import Category, Population
from analyze.stats.moments import SampleMoments, category_moments, pooled
from schemas.arrays import F8, I4, I8
from schemas.report.mutations import Direction, MutationKind

_NOTHING_US: Final = 1e-3
"""Absolute contribution, µs, below which it counts as 0: less than the resolution of the clock (1 ns) in one
request."""


@dataclass(frozen=True, slots=True)
class EdgeEvidence:
    """Tests and attribution of the edges of a response-time mutation."""

    tests: KsTests
    """KS tests of edges, [edges]: by variant `text` over the requests in which the edge is critical, by
    variant `released` over all edges of one name."""
    attribution: Attribution


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ranked mutation: a category that changed."""

    category: int
    """Index of the category in the population."""
    kind: MutationKind
    contribution_us: float
    """Contribution to the summed response time, µs times requests, by the formula chosen in the settings."""
    contribution_nsdi_us: float
    """Contribution by the formula of the NSDI paper, µs times requests."""
    contribution_tr_us: float
    """Contribution by the formula of the technical report, µs times requests."""
    baseline_mean_us: float
    """Baseline of the mutation's mean response time, µs: the mean of its precursors, or of the category
    itself in the reference.

    For a structural mutation without candidates: by variant `text` the mean of the root type; by variant
    `released` the mutation's own mean, so that the contribution is 0.
    """
    candidates: MutationCandidates | None
    """Candidates for precursors of a structural mutation; if none was found, their `category` is empty. None
    for a response-time mutation."""
    edges: EdgeEvidence | None
    """Evidence on the edges of a response-time mutation; None for a structural one."""
    virtual: str = ""
    direction: Direction = Direction.INCREASE
    """Sign of the mutation's effect on the summed response time; without an effect, sign of the change of the
    mean."""


@dataclass(frozen=True, slots=True)
class PaperRun:
    """Results of paper mode."""

    moments: SampleMoments
    root: I8
    """Index of the root type of each category, int64[categories]; root types are numbered in order of first
    appearance."""
    times: KsTests
    """KS tests of the response times of each category, [categories]."""
    sets: StructuralSets
    mutations: tuple[Ranked, ...]
    """Mutations by rank.

    Variant `text`: first the mutations in the direction of the change of the mean response time, then the
    others, each by |contribution|, largest first. Variant `released`: by signed contribution, largest first.
    Ties are ordered by kind and category key.
    """
    signed: bool
    """True if mutations of both directions are in one list, by signed contribution; False for one list per
    direction."""
    painted: tuple[KsTests, ...]
    """Tests of every edge of every category, mutated or not, one `KsTests` [edges] per category; for variant
    `released`.

    Empty for variant `text`, where only the edges of response-time mutations are tested (`Ranked.edges`).
    """


def paper_run(population: Population, settings: PaperSettings) -> PaperRun:
    """Find all mutations of both kinds, ranked by the rules of the variant (`text` or `released`).

    Cost: one sort of each category's response times; for response-time mutations the critical path and one
    sort of each edge (`released`: one sort of each edge of every category); one edit distance for each
    distinct pair of structural mutation and precursor of a root type.
    """
    categories = population.categories
    moments = category_moments(categories, len(population.samples))
    place = Numbering[str]()
    root = np.array([place[c.graph.root] for c in categories], dtype=np.int64)
    times = response_time_tests(categories, settings)
    painted: tuple[KsTests, ...] = ()
    if settings.variant == "released":
        painted = tuple(named_edge_tests(c, edge_latency_ns(c), settings) for c in categories)
    sets = structural_sets(moments.count, settings)
    found = _structural(categories, moments, root, sets, settings)
    for index in np.flatnonzero(times.changed).tolist():
        by_name = painted[index] if painted else None
        found.append(_response_time(index, categories[index], moments, by_name, settings))
    found.sort(key=lambda m: (m.kind, categories[m.category].graph.key))
    signed = settings.variant == "released"
    ranked = _ranked(_name_virtual(found, sets, settings), _change_sign(moments), signed=signed)
    return PaperRun(moments, root, times, sets, tuple(ranked), signed, painted)


def _ranked(found: list[Ranked], change_sign: float, *, signed: bool) -> list[Ranked]:
    """Sort mutations as in `PaperRun.mutations`. change_sign: sign of the change of the mean over all
    requests."""
    placed = [replace(m, direction=_direction(m.contribution_us, change_sign)) for m in found]
    if signed:
        return sorted(placed, key=lambda m: -m.contribution_us)
    first = Direction.INCREASE if change_sign >= 0 else Direction.DECREASE
    return sorted(placed, key=lambda m: (m.direction is not first, -abs(m.contribution_us)))


def _direction(contribution_us: float, change_sign: float) -> Direction:
    none = abs(contribution_us) < _NOTHING_US
    towards = change_sign if none else contribution_us
    return Direction.INCREASE if towards >= 0 else Direction.DECREASE


def _change_sign(moments: SampleMoments) -> float:
    """Sign of the change of the mean response time; 0 if the means are equal or a period is empty."""
    before, after = pooled(moments, np.arange(moments.count.shape[1])).mean_us[:, 0]
    return 0.0 if np.isnan(after - before) else float(np.sign(after - before))


def _structural(
    categories: tuple[Category, ...],
    moments: SampleMoments,
    root: I8,
    sets: StructuralSets,
    settings: PaperSettings,
) -> list[Ranked]:
    """Find structural mutations, by root type, each with its candidates and contribution."""
    released = settings.variant == "released"
    texts = as_texts([edge_sequence(c.graph) if released else c.graph.text.tokens for c in categories])
    found: list[Ranked] = []
    for code in np.unique(root[sets.mutations]):
        mutations = sets.mutations[root[sets.mutations] == code]
        precursors = sets.precursors[root[sets.precursors] == code]
        apart = distances(texts, mutations, precursors)
        root_mean = float(pooled(moments, np.flatnonzero(root == code)).mean_us[1, 0])
        for row, m in enumerate(mutations):
            chosen = candidates(int(m), precursors, moments.count) if settings.one_to_n else precursors
            relaxed = len(chosen) == 0 and not released
            if relaxed:
                chosen = precursors
            column = np.searchsorted(precursors, chosen)
            found.append(
                _rank_candidates(
                    int(m),
                    chosen,
                    apart.edits[row, column],
                    apart.normalized[row, column],
                    moments,
                    root_mean,
                    settings,
                    relaxed=relaxed and len(chosen) > 0,
                )
            )
    return found


def _rank_candidates(
    mutation: int,
    chosen: npt.NDArray[np.intp],
    edits: I4,
    normalized: F8,
    moments: SampleMoments,
    root_mean_us: float,
    settings: PaperSettings,
    *,
    relaxed: bool,
) -> Ranked:
    """Rank the candidates of one structural mutation by distance, and compute its contribution by the
    formulas of both papers (NSDI, technical report).

    Of equal distances the precursor that lost more requests comes first, then the order of categories counts.
    relaxed: True if the rule of similar counts was dropped.
    """
    gained = int(moments.count[1, mutation] - moments.count[0, mutation])
    mean1 = float(moments.mean_us[1, mutation])
    precursor_means = moments.filled_mean_us()[1, chosen]

    def baseline_by(distance: Distance) -> tuple[float, F8]:
        if len(chosen) == 0:
            return (mean1 if settings.variant == "released" else root_mean_us), np.zeros(0)
        weight = similarity_weights(edits, normalized, distance, settings)
        return float((weight * precursor_means).sum()), weight

    in_force = settings.resolved_distance
    baseline, weight = baseline_by(in_force)
    # The released tool has only one distance: the columns of both papers show it.
    nsdi, _ = baseline_by("raw" if settings.variant == "text" else in_force)
    tr, _ = baseline_by("normalized" if settings.variant == "text" else in_force)
    distance = edits.astype(np.float64) if in_force == "raw" else normalized
    lost = moments.count[0, chosen] - moments.count[1, chosen]
    order = np.lexsort((chosen, -lost, distance))
    return Ranked(
        category=mutation,
        kind=MutationKind.STRUCTURAL,
        contribution_us=structural_contribution(gained, mean1, baseline),
        contribution_nsdi_us=structural_contribution(gained, mean1, nsdi),
        contribution_tr_us=structural_contribution(gained, mean1, tr),
        baseline_mean_us=baseline,
        candidates=MutationCandidates(chosen[order], edits[order], distance[order], weight[order], relaxed),
        edges=None,
    )


def _response_time(
    index: int,
    category: Category,
    moments: SampleMoments,
    by_name: KsTests | None,
    settings: PaperSettings,
) -> Ranked:
    """Make one response-time mutation with tests of its edges.

    index: of the category in the population. by_name: tests of edges by name; None: each edge is tested on
    the requests in which it was critical.
    """
    mean0, mean1 = (float(x) for x in moments.mean_us[:, index])
    value = response_time_contribution(int(moments.count[0, index]), mean0, mean1)
    latency, critical = edge_latency_ns(category), critical_path(category)
    tests = by_name
    if tests is None:  # only where the edges were critical (NSDI §5.1)
        tests = text_tests(latency, category.sample == 1, settings, critical)
    return Ranked(
        category=index,
        kind=MutationKind.RESPONSE_TIME,
        contribution_us=value,
        contribution_nsdi_us=value,
        contribution_tr_us=value,
        baseline_mean_us=mean0,
        candidates=None,
        edges=EdgeEvidence(tests, attribute(category, latency_ns=latency, on_path=critical)),
    )


def _name_virtual(found: list[Ranked], sets: StructuralSets, settings: PaperSettings) -> list[Ranked]:
    """Mark the mutations of a category with several roles, which the papers split into virtual categories.

    Both papers split response-time and structural mutations; the technical report also response-time
    mutations and precursors.
    """
    slower = {m.category for m in found if m.kind is MutationKind.RESPONSE_TIME}
    both = slower & set(sets.mutations.tolist())
    also_precursor = slower & set(sets.precursors.tolist()) if settings.ranking == "tr" else set()
    named = []
    for m in found:
        note = ""
        if m.category in both:
            note = "structural and response-time mutation: ranked once as each"
        elif m.category in also_precursor:
            note = "response-time mutation that is also a precursor: ranked as the mutation"
        named.append(replace(m, virtual=note))
    return named
