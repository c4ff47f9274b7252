"""Find and rank all mutations of a population (NSDI §5, TR §5).

Structural mutations, which categories gained, where their requests came from and what that cost, are found by
a threshold on raw counts (TR §5.2, NSDI §5.2), by edit distance between categories,
by the formulas of both papers (TR §5.3, NSDI §5.4).

Distance is Levenshtein on sequences of names: `text` compares canonical tokens, `released` the names of its
edges' ends. Names are turned into one character each, so that the distance runs on strings. Every candidate's
distance enters the weighted mean of a mutation's precursors, hence no score cutoff: a cut distance would
change the published formula. Equal sequences (in `text`, categories that differ in loop counts only) are
computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from analyze.methods.paper.settings import Distance, PaperSettings
from analyze.methods.paper.timing import (
    KsTests,
    critical_edge_tests,
    named_edge_tests,
    response_time_contribution,
    response_time_tests,
)
from analyze.numbering import Numbering
from analyze.paths.critical_path import Attribution, attribute, critical_path, edge_latency_ns
from analyze.population import Category, Graph, Population
from analyze.stats.moments import SampleMoments, category_moments, pooled
from schemas.arrays import F8, I4, I8
from schemas.report.mutations import Direction, MutationKind


@dataclass(frozen=True, slots=True)
class StructuralSets:
    """Indices into the population's categories, ascending."""

    mutations: _INDEX
    precursors: _INDEX


def structural_sets(count: I8, settings: PaperSettings) -> StructuralSets:
    """Categories that gained, and that lost, the threshold in requests.

    count: [2, categories] raw counts. `text`: gained >= threshold; `released`: strictly more.
    """
    gained = count[1] - count[0]
    least = settings.sm_threshold + (1 if settings.variant == "released" else 0)
    return StructuralSets(np.flatnonzero(gained >= least), np.flatnonzero(-gained >= least))


def candidates(mutation: int, precursors: _INDEX, count: I8, root: I8, *, one_to_n: bool) -> _INDEX:
    """Precursors that may have given requests to `mutation` (NSDI §5.3), ascending.

    Same root type; and, with `one_to_n`, lost at least as many requests as the mutation gained. root:
    [categories] code of the root type.
    """
    keep = root[precursors] == root[mutation]
    if one_to_n:
        lost = count[0, precursors] - count[1, precursors]
        keep &= lost >= count[1, mutation] - count[0, mutation]
    chosen: _INDEX = precursors[keep]
    return chosen


@dataclass(frozen=True, slots=True)
class Distances:
    """[mutations, precursors] edit distances."""

    edits: I4
    """Levenshtein distance d."""
    normalized: F8
    """d over the longer sequence, in [0, 1]."""


def edge_sequence(graph: Graph) -> tuple[Hashable, ...]:
    """Names of the ends of every edge, (src, dst, src, dst, …), loops unfolded, in the order of `edges`.

    What the released tool compares. a → b → c is (a, b, b, c); a graph of one node is empty.
    """
    return tuple(graph.nodes[end] for end in graph.edges.reshape(-1).tolist())


class TokenTexts:
    """Sequences as strings over a private alphabet, one character a distinct token."""

    def __init__(self, sequences: Sequence[tuple[Hashable, ...]]) -> None:
        tokens = dict.fromkeys(token for sequence in sequences for token in sequence)
        alphabet = {token: chr(i) for i, token in enumerate(tokens)}
        self.texts = tuple("".join(alphabet[t] for t in s) for s in sequences)

    def distances(self, rows: _INDEX, columns: _INDEX) -> Distances:
        """Distances between the sequences `rows` and `columns`. O(Σ n·m / 64)."""
        left, back_left = _distinct([self.texts[i] for i in rows])
        right, back_right = _distinct([self.texts[i] for i in columns])
        edits = cdist(left, right, scorer=Levenshtein.distance, dtype=np.int32)[np.ix_(back_left, back_right)]
        longer = np.maximum(
            np.array([len(self.texts[i]) for i in rows])[:, None],
            np.array([len(self.texts[i]) for i in columns])[None, :],
        )
        return Distances(edits, edits / np.maximum(longer, 1))


def _distinct(texts: list[str]) -> tuple[list[str], _INDEX]:
    """Distinct texts, and for each input its place among them."""
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return list(place), np.array([place[text] for text in texts], dtype=np.intp)


def similarity_weights(edits: I4, normalized: F8, distance: Distance, settings: PaperSettings) -> F8:
    """Weights of a mutation's candidates, summing to 1.

    `text`: s = 1/(1+d) on the raw distance, 1 - d on the normalized one. `released`: 1/d, whichever d; a
    candidate at distance 0 then takes all (the limit), shared where there are several.
    """
    d = edits.astype(np.float64) if distance == "raw" else normalized
    if settings.variant == "released":
        s = np.where(d == 0, 1.0, 0.0) if (d == 0).any() else 1.0 / d
    else:
        s = 1.0 / (1.0 + d) if distance == "raw" else 1.0 - d
    total = s.sum()
    # No token in common with any candidate: similarity says nothing, so they count alike.
    return s / total if total > 0 else np.full(len(s), 1.0 / len(s))


def structural_contribution(gained: int, mean1_us: float, baseline_us: float) -> float:
    """Requests gained times the problem-period mean over the precursors' mean, requests·µs."""
    return gained * (mean1_us - baseline_us)


_INDEX = npt.NDArray[np.intp]

_NOTHING_US: Final = 1e-3
"""A contribution below this is none: it is less than one tick of the clock (1 ns) in one request."""


@dataclass(frozen=True, slots=True)
class MutationCandidates:
    """Candidate precursors of one structural mutation, most likely first."""

    category: _INDEX
    edits: I4
    distance: F8
    weight: F8
    """Sum to 1."""
    relaxed: bool
    """`text`: the 1:N heuristic left none, so these are the candidates without it: many categories may have
    given to one. The papers leave the case open; an empty `category` then means that nothing of the root lost
    the threshold. `released` drops no rule: an empty `category` means that nothing passed it."""


@dataclass(frozen=True, slots=True)
class EdgeEvidence:
    """What happened at the edges of one response-time mutation."""

    tests: KsTests
    """[edges]; `text`: where each was critical; `released`: of its name, all places pooled."""
    attribution: Attribution


@dataclass(frozen=True, slots=True)
class Ranked:
    """One mutation; `category` indexes the population."""

    category: int
    kind: MutationKind
    contribution_us: float
    contribution_nsdi_us: float
    contribution_tr_us: float
    baseline_mean_us: float
    """What the mean after is compared with: the precursors', or the own before. Without a candidate the root
    type's (`text`), or the mutation's own after, so that it costs 0 (`released`)."""
    virtual: str
    candidates: MutationCandidates | None
    """Structural only; without candidates, `category` is empty."""
    edges: EdgeEvidence | None
    """Response time only."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Mutations that are read as one list, best first."""

    direction: Direction | None
    """Whose list it is; None: both ways in one list by signed contribution."""
    mutations: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True)
class PaperResult:
    """Everything paper mode found."""

    moments: SampleMoments
    root: I8
    """[categories] code of the root type, in order of first appearance."""
    times: KsTests
    """[categories] KS on response time."""
    sets: StructuralSets
    lists: tuple[Ranking, ...]
    """`text`: one a direction that has any; first the one in which the mean response time went, each by
    |contribution|, largest first. `released`: one, by signed contribution, largest first. Ties by kind and
    category key. None is empty."""
    painted: tuple[KsTests, ...]
    """`released`: [categories] tests of every edge of every category, mutated or not ([edges], by name).
    Empty in `text`, where only response-time mutations have edges tested (`Ranked.edges`)."""
    change_sign: float
    """Sign of the change of the weighted mean over all requests; 0 where it is equal or a period is empty."""

    @property
    def mutations(self) -> tuple[Ranked, ...]:
        """All lists, one after the other: the place in it is the rank."""
        return tuple(mutation for ranked in self.lists for mutation in ranked.mutations)

    def direction(self, mutation: Ranked) -> Direction:
        """Whether a mutation made requests take longer in sum; one that did neither goes with the mean."""
        return _direction(mutation.contribution_us, self.change_sign)


def paper_mutations(population: Population, settings: PaperSettings) -> PaperResult:
    """All mutations of both kinds, ranked as the variant does.

    Complexity: one sort of each category's response times; for response-time mutations the critical path and
    one sort of each edge (`released`: one sort of each edge of every category); one edit distance a distinct
    pair of structural mutation and precursor of a root.
    """
    categories = population.categories
    moments = category_moments(categories, len(population.samples))
    root = _root_codes(categories)
    times = response_time_tests(categories, settings)
    painted: tuple[KsTests, ...] = ()
    if settings.variant == "released":
        painted = tuple(named_edge_tests(c, edge_latency_ns(c), settings) for c in categories)
    sets = structural_sets(moments.count, settings)
    found = _structural(categories, moments, root, sets, settings)
    for index in np.flatnonzero(times.changed).tolist():
        by_name = painted[index] if painted else None
        found.append(_response_time(index, categories[index], moments, by_name, settings))
    named = _name_virtual(found, sets, settings)
    named.sort(key=lambda m: (m.kind, categories[m.category].graph.key))
    change_sign = _change_sign(moments)
    lists = _signed_list(named) if settings.variant == "released" else _lists_by_direction(named, change_sign)
    return PaperResult(moments, root, times, sets, lists, painted, change_sign)


def _signed_list(found: list[Ranked]) -> tuple[Ranking, ...]:
    """One list, the most added time first, the most saved time last."""
    ranked = sorted(found, key=lambda m: -m.contribution_us)
    return (Ranking(None, tuple(ranked)),) if ranked else ()


def _lists_by_direction(found: list[Ranked], change_sign: float) -> tuple[Ranking, ...]:
    """The papers' separate lists, first that of the direction of the change."""
    members: dict[Direction, list[Ranked]] = {way: [] for way in Direction}
    for mutation in sorted(found, key=lambda m: -abs(m.contribution_us)):
        members[_direction(mutation.contribution_us, change_sign)].append(mutation)
    first = Direction.INCREASE if change_sign >= 0 else Direction.DECREASE
    ways = sorted(Direction, key=lambda way: way is not first)
    return tuple(Ranking(way, tuple(members[way])) for way in ways if members[way])


def _direction(contribution_us: float, change_sign: float) -> Direction:
    none = abs(contribution_us) < _NOTHING_US
    towards = change_sign if none else contribution_us
    return Direction.INCREASE if towards >= 0 else Direction.DECREASE


def _change_sign(moments: SampleMoments) -> float:
    before, after = pooled(moments, np.arange(moments.count.shape[1])).mean_us[:, 0]
    return 0.0 if np.isnan(after - before) else float(np.sign(after - before))


def _root_codes(categories: tuple[Category, ...]) -> I8:
    place = Numbering[str]()
    return np.array([place[c.graph.root] for c in categories], dtype=np.int64)


def _structural(
    categories: tuple[Category, ...],
    moments: SampleMoments,
    root: I8,
    sets: StructuralSets,
    settings: PaperSettings,
) -> list[Ranked]:
    """Structural mutations, root by root, each with its candidates and contribution."""
    released = settings.variant == "released"
    texts = TokenTexts([edge_sequence(c.graph) if released else c.graph.text.tokens for c in categories])
    found: list[Ranked] = []
    for code in np.unique(root[sets.mutations]):
        mutations = sets.mutations[root[sets.mutations] == code]
        precursors = sets.precursors[root[sets.precursors] == code]
        distances = texts.distances(mutations, precursors)
        root_mean = float(pooled(moments, np.flatnonzero(root == code)).mean_us[1, 0])
        for row, m in enumerate(mutations):
            chosen = candidates(int(m), precursors, moments.count, root, one_to_n=settings.one_to_n)
            relaxed = settings.one_to_n and len(chosen) == 0 and not released
            if relaxed:
                chosen = candidates(int(m), precursors, moments.count, root, one_to_n=False)
            column = np.searchsorted(precursors, chosen)
            found.append(
                _rank_candidates(
                    int(m),
                    chosen,
                    distances.edits[row, column],
                    distances.normalized[row, column],
                    moments,
                    root_mean,
                    settings,
                    relaxed=relaxed and len(chosen) > 0,
                )
            )
    return found


def _rank_candidates(
    mutation: int,
    chosen: _INDEX,
    edits: I4,
    normalized: F8,
    moments: SampleMoments,
    root_mean_us: float,
    settings: PaperSettings,
    *,
    relaxed: bool,
) -> Ranked:
    """Contribution of one structural mutation by both papers' formulas; candidates by distance.

    Ties of distance go to the precursor that lost more requests, then to category order.
    """
    gained = int(moments.count[1, mutation] - moments.count[0, mutation])
    mean1 = float(moments.mean_us[1, mutation])
    precursor_means = moments.filled_mean_us()[1, chosen]

    def held_against(distance: Distance) -> tuple[float, F8]:
        if len(chosen) == 0:
            return (mean1 if settings.variant == "released" else root_mean_us), np.zeros(0)
        weight = similarity_weights(edits, normalized, distance, settings)
        return float((weight * precursor_means).sum()), weight

    in_force = settings.resolved_distance
    baseline, weight = held_against(in_force)
    # The released tool has one distance only: both papers' columns show the same there.
    nsdi, _ = held_against("raw" if settings.variant == "text" else in_force)
    tr, _ = held_against("normalized" if settings.variant == "text" else in_force)
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
        virtual="",
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
    """One response-time mutation with the tests of its edges: `by_name`, else of the critical ones."""
    mean0, mean1 = (float(x) for x in moments.mean_us[:, index])
    value = response_time_contribution(int(moments.count[0, index]), mean0, mean1)
    latency, critical = edge_latency_ns(category), critical_path(category)
    tests = by_name if by_name is not None else critical_edge_tests(category, latency, critical, settings)
    return Ranked(
        category=index,
        kind=MutationKind.RESPONSE_TIME,
        contribution_us=value,
        contribution_nsdi_us=value,
        contribution_tr_us=value,
        baseline_mean_us=mean0,
        virtual="",
        candidates=None,
        edges=EdgeEvidence(tests, attribute(category, latency_ns=latency, on_path=critical)),
    )


def _name_virtual(found: list[Ranked], sets: StructuralSets, settings: PaperSettings) -> list[Ranked]:
    """Mark the rows of a category that is several things at once, which the papers split.

    Both papers split response time + structural; the tech report also response time + precursor.
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
