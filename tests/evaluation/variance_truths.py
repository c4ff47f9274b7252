"""What `flowdiff variance` says of simulated runs in which a fault adds variance at one edge.

`PYTHONPATH=tests python -m evaluation.variance_truths [seeds] [words of cases]` prints a line a run and the
table of docs/internals/evaluation.md; `… 1 published` the C² shares of the papers' workloads at their size
(minutes).

* back-off: 1 % of the reads wait a second (F10, linux-build). The edge must be first by what it adds within
  paths; when every edge of the truth has a marker, the first of what is left must be the first of the run of
  the same seed without the fault.
* spikes: in 2 s of every 40 s one edge takes longer, so much that it adds as much variance as there was. The
  edge is one of the five on most requests' critical paths, chosen by the seed; then as above.
* noisy neighbour: everything on the data node takes half as long again (F11, sfs97). The run is held against
  one of another seed without the fault: the first place that became more variable must be on that node. (By
  share alone it is not first: the metadata disk varies more, before and after.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import pyarrow as pa
from evaluation.cases import PAPER_SIZE
from evaluation.paper_figures import PAPER
from evaluation.runs import Period, Simulated, forget_runs, period_of

from analyze.methods.variance.markers import Marker
from analyze.methods.variance.method import variance_result
from analyze.methods.variance.settings import VarianceSettings
from analyze.population import Category, Population, Sample
from analyze.profile.names import edge_name
from analyze.profile.times import path_times
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.limits import ReportLimits
from schemas.report.variance import (
    MarkerKind,
    VarianceChangeSection,
    VarianceDetailsSection,
    VarianceSection,
)

SETTINGS = VarianceSettings(details=3, explained=0)
FIRST_SEED = 700_000
"""Seeds that no trial uses."""
NOISY_REQUESTS = 12_000
SPIKE_EVERY_NS, SPIKE_NS = 40e9, 2e9


@dataclass(frozen=True)
class Answer:
    """What came out of one run."""

    first: bool
    """The edge of the truth, or a place on its node, is first."""
    next_surfaces: bool | None
    """After marking; None where there is nothing to mark."""
    share: float
    """Of the first place."""
    sums_error: float
    """Largest |Σ shares - 1|."""
    told: str


def population_of(periods: Sequence[Period], names: Sequence[str]) -> Population:
    """Runs as samples, refined together."""
    flows = pa.concat_tables(
        p.flows.append_column("sample", pa.array(np.full(p.flows.num_rows, n, dtype=np.uint8)))
        for n, p in enumerate(periods)
    )
    samples = tuple(Sample(name, "", p.start_ns, p.end_ns) for name, p in zip(names, periods, strict=True))
    structures = pa.concat_tables(p.structures for p in periods)
    return refine(flows.unify_dictionaries(), structures, RefineSettings(), samples)


def answered(found: Population, markers: Sequence[str] = ()) -> tuple[VarianceSection, float]:
    """Tier 1, and the largest error of a sum of shares."""
    marked = [
        Marker(label=f"*{text}", kind=MarkerKind.INTRINSIC, owner="o", reason="r", expires=date(9999, 1, 1))
        for text in markers
    ]
    result = variance_result(found, marked, SETTINGS, ReportLimits(brief_edges=10_000))
    errors = [abs(sum(result.tables["variance_sites"]["total"].to_pylist()) - 1)]
    for section in result.sections:
        if isinstance(section, VarianceDetailsSection):
            errors += [abs(sum(edge.share for edge in detail.edges) - 1) for detail in section.details]
    tier1 = next(section for section in result.sections if isinstance(section, VarianceSection))
    return tier1, max(errors)


def plain(label: str) -> str:
    """A label without hosts."""
    return " -> ".join(
        part.split("/", 1)[1] if part.split("/")[0] in ("nfs-a", "mds-a", "sn-data", "sn-meta") else part
        for part in label.split(" -> ")
    )


def marked_away(found: Population, truth: Sequence[str], calm: Population) -> Answer:
    """Whether a true edge is first, and what is first when all are marked, against the run without them."""
    tier1, error = answered(found)
    top = tier1.sites[0]
    left, _ = answered(found, truth)
    rest = next(site for site in left.sites if site.marker is None)
    usual = answered(calm)[0].sites[0]
    return Answer(
        plain(top.label) in truth,
        rest.label == usual.label,
        top.within,
        error,
        f"{top.label} {top.within:.0%}; then {rest.label}, usual {usual.label}",
    )


def backoff(seed: int) -> Answer:
    """F10."""
    runs = [
        period_of(Simulated("linux-build", fault, None, 12_000, 1.0, seed, with_truth=fault[0] == "F"))
        for fault in ("F10-stale-backoff", "N1-same")
    ]
    truth = [
        f"{plain(edge.src)} -> {plain(edge.dst)}"
        for told in runs[0].truths
        for cause in told.summary.causes
        for edge in cause.edges
    ]
    found, calm = (population_of([run], ["period"]) for run in runs)
    return marked_away(found, truth, calm)


def spikes(seed: int) -> Answer:
    """Longer times at one edge, now and then, added to the run that F10 is held against."""
    calm = population_of(
        [period_of(Simulated("linux-build", "N1-same", None, 12_000, 1.0, seed, with_truth=False))],
        ["period"],
    )
    times = path_times(calm)
    passes: dict[str, float] = {}
    for category, mine in zip(calm.categories, times.categories, strict=True):
        for edge in range(len(category.graph.edges)):
            label = edge_name(category.graph, edge, -1).text
            passes[label] = passes.get(label, 0.0) + float(mine.on_path[edge].sum())
    ranked = sorted(passes, key=lambda label: (-passes[label], label))[:5]
    label = ranked[seed % len(ranked)]
    spread = float(np.var(np.concatenate([category.response_ns for category in calm.categories])))
    hit = sum(float(_hit(c, label).sum()) for c in calm.categories) / sum(
        c.n_requests for c in calm.categories
    )
    longer = np.sqrt(spread / (hit * (1 - hit)))
    found = replace(calm, categories=tuple(_spiked(c, label, longer) for c in calm.categories))
    return marked_away(found, [label], calm)


def _edges(category: Category, label: str) -> list[int]:
    graph = category.graph
    return [edge for edge in range(len(graph.edges)) if edge_name(graph, edge, -1).text == label]


def _hit(category: Category, label: str) -> np.ndarray:
    """[requests] in a spike at an edge that is on no branch."""
    chosen = _edges(category, label)
    if not chosen or len(category.graph.edges) != category.graph.n_nodes - 1:
        return np.zeros(category.n_requests, dtype=np.bool_)
    if len(set(category.graph.edges[:, 0].tolist())) != len(category.graph.edges):
        return np.zeros(category.n_requests, dtype=np.bool_)
    return np.asarray(category.start_ns % SPIKE_EVERY_NS < SPIKE_NS)


def _spiked(category: Category, label: str, longer_ns: float) -> Category:
    hit = _hit(category, label)
    if not hit.any():
        return category
    node_ns = category.node_ns.copy()
    after = int(category.graph.edges[_edges(category, label)[0], 1])
    later = node_ns[after:][:, hit]
    node_ns[after:, hit] = later + round(longer_ns)  # a chain: positions are in order of time
    return replace(category, node_ns=node_ns, response_ns=category.response_ns + hit * round(longer_ns))


def noisy(seed: int) -> Answer:
    """F11 against a run without it."""
    runs = [
        period_of(Simulated("sfs97", "N1-same", None, NOISY_REQUESTS, 1.0, seed + 500, with_truth=False)),
        period_of(Simulated("sfs97", "F11-noisy-host", None, NOISY_REQUESTS, 1.0, seed, with_truth=False)),
    ]
    found = population_of(runs, ["reference", "problem"])
    result = variance_result(found, (), SETTINGS, ReportLimits())
    change = next(s for s in result.sections if isinstance(s, VarianceChangeSection))
    more = [row for row in change.sites if row.ratio > 1]
    top = more[0] if more else None
    return Answer(
        top is not None and "sn-data/" in top.label,
        None,
        0.0 if top is None else top.change,
        0.0,
        "nothing" if top is None else f"{top.label} {top.change:+.0%}",
    )


def calm_pair(seed: int) -> Answer:
    """Nothing: nothing should have become more variable. `first` tells that it did not."""
    runs = [
        period_of(Simulated("sfs97", "N1-same", None, NOISY_REQUESTS, 1.0, s, with_truth=False))
        for s in (seed + 500, seed + 501)
    ]
    result = variance_result(population_of(runs, ["reference", "problem"]), (), SETTINGS, ReportLimits())
    change = next(s for s in result.sections if isinstance(s, VarianceChangeSection))
    more = [row for row in change.sites if row.ratio > 1]
    return Answer(not more, None, 0.0, 0.0, ", ".join(f"{row.label} {row.change:+.0%}" for row in more))


def published(seed: int, traced: Mapping[str, int] = PAPER_SIZE) -> Iterator[str]:
    """A line a workload: large categories, those of C² below 1, the largest (NSDI Table 1, Figure 6)."""
    for workload, paper in PAPER.items():
        wanted = Simulated(workload, "N1-same", None, traced[workload], 0.1, seed, with_truth=False)
        tier1, _ = answered(population_of([period_of(wanted)], ["period"]))
        (curve,) = tier1.curves
        yield (
            f"| {workload} | {curve.categories} | {curve.below_one or 0:.1%} | "
            f"{paper.low_variance_pct:.0f} % | {curve.largest or 0:.1f} | {paper.max_c2:g} |"
        )


CASES: dict[str, Callable[[int], Answer]] = {
    "back-off of a second, 1 % of reads (F10)": backoff,
    "spikes at one edge": spikes,
    "noisy neighbour on the data node (F11), two periods": noisy,
    "nothing, two periods": calm_pair,
}


def lines(seeds: int, chosen: Sequence[str]) -> Iterator[str]:
    """A line a run, then the rows of the table."""
    rows = []
    if "published" in chosen:
        yield from published(FIRST_SEED)
        return
    for name, case in CASES.items():
        if chosen and not any(word in name for word in chosen):
            continue
        answers = []
        for seed in range(seeds):
            answers.append(case(FIRST_SEED + seed))
            forget_runs()
            yield f"{name} {seed}: {answers[-1]}"
        surfaced = [a.next_surfaces for a in answers if a.next_surfaces is not None]
        rows.append(
            f"| {name} | {sum(a.first for a in answers)} of {seeds} | "
            f"{f'{sum(surfaced)} of {len(surfaced)}' if surfaced else '–'} | "
            f"{max(a.sums_error for a in answers):.0e} |"
        )
    yield from rows


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 10, sys.argv[2:]):
        print(line, flush=True)
