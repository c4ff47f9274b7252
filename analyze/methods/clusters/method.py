"""Method "clusters", `flowdiff clusters`: cluster requests; section, verdict and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from analyze.methods.clusters.clusters_run import ClustersRun, clusters_run
from analyze.methods.clusters.rows import cluster_rows, clusters_tables, overlay_row
from analyze.methods.clusters.sections import CLUSTERS, look_first
from analyze.methods.clusters.settings import ClustersSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population
from analyze.profile.samples import ComparedSamples
from analyze.report import wording
from analyze.report.gate import Weighed
from analyze.report.limits import ReportLimits
from schemas.report.clusters import ClusterRow, ClustersSection
from schemas.report.report import Verdict

_KIND: Final = "clusters"
_MOST_CLUSTERS: Final = 24
"""Maximum number of clusters in the section; the tables hold all."""
_MOST_OVERLAYS: Final = 30
_UNSTABLE: Final = 0.75
"""Mean Jaccard overlap below which clusters are reported to dissolve in refits (Hennig 2007)."""


def analyse(
    compared: ComparedSamples,
    _history: ComparedSamples | None,
    settings: ClustersSettings,
    limits: ReportLimits,
) -> Result:
    """Cluster requests, and compare the clusters of two samples. The history is not used."""
    population = compared.population
    del limits  # limits of other sections
    if not any(category.n_requests for category in population.categories):
        return Result(
            settings=settings,
            verdict=Verdict(outcome="too-few", text="There is no request to cluster."),
            sections=(),
            weighed=[Weighed(_KIND, None, sure=False)],
        )
    run = clusters_run(population, settings)
    rows = cluster_rows(run, settings)
    section = _section(population, run, rows, settings)
    return Result(
        settings=settings,
        verdict=_verdict(section, rows),
        sections=(section,),
        tables=clusters_tables(population, run, rows, settings.blocks),
        notes=_notes(rows),
        weighed=[
            Weighed(_KIND, held.score_us)
            for held in run.overlays
            if held.kind in ("samples", "origin") and held.score_us > 0
        ],
    )


def _section(
    population: Population, run: ClustersRun, rows: Sequence[ClusterRow], settings: ClustersSettings
) -> ClustersSection:
    samples = tuple(sample.name for sample in population.samples)
    shown = _shown(run, rows)
    held = [one for one in run.overlays if one.cluster in shown][:_MOST_OVERLAYS]
    return ClustersSection(
        features=settings.features,
        style=settings.style,
        samples=samples,
        requests=sum(category.n_requests for category in population.categories),
        rows=run.rows.n_rows,
        columns=run.space.columns,
        dimensions=run.space.dimensions,
        explained=run.space.explained,
        chosen="asked" if settings.clusters else "curve",
        curve=run.curve,
        clusters_total=len(rows),
        clusters=tuple(rows[cluster] for cluster in shown),
        apart=tuple(tuple(float(run.apart[a, b]) for b in shown) for a in shown),
        reseeded=run.stability.reseeded,
        halved=run.stability.halved,
        categories=len(run.agreement.key),
        rand_categories=run.agreement.adjusted_rand,
        homogeneity=run.agreement.purity.homogeneity,
        completeness=run.agreement.purity.completeness,
        overlays=tuple(overlay_row(run, one, samples) for one in held),
        overlays_total=len(run.overlays),
    )


def _shown(run: ClustersRun, rows: Sequence[ClusterRow]) -> list[int]:
    """Indices of the clusters to list in the section: first those with coloured overlays, then changed ones,
    then the largest."""
    wanted: dict[int, None] = {}
    for held in run.overlays:
        if held.score_us > 0:
            wanted |= {held.cluster: None, held.other: None}
    changed = [row.number - 1 for row in rows if row.changed]
    changed.sort(key=lambda cluster: -abs(rows[cluster].shares[-1] - rows[cluster].shares[0]))
    wanted |= dict.fromkeys([*changed, *range(len(rows))])
    return sorted(list(wanted)[:_MOST_CLUSTERS])


def _verdict(section: ClustersSection, rows: Sequence[ClusterRow]) -> Verdict:
    groups = wording.counted(section.clusters_total, "cluster")
    if len(section.samples) == 1:
        per_root = Counter(row.root for row in rows)
        root, most = max(per_root.items(), key=lambda item: (item[1], item[0]))
        what = f"; {root} has {wording.count(most)} of them" if most > 1 else ", one a root type"
        return Verdict(outcome="clustered", text=f"Requests fall into {groups}{what}.")
    changed = [row for row in rows if row.changed]
    first = look_first(section)
    if not changed and not first:
        return Verdict(
            outcome="as-clustered",
            text=f"None of {groups} changed: neither its share of its root type nor its call trees.",
        )
    changes = ""
    if changed:
        changes = f"{wording.counted(len(changed), 'cluster')} of {section.clusters_total} changed share."
    return Verdict(outcome="clusters-changed", text=" ".join(part for part in (first, changes) if part))


def _notes(rows: Sequence[ClusterRow]) -> tuple[str, ...]:
    loose = [row for row in rows if row.jaccard is not None and row.jaccard < _UNSTABLE]
    part = sum(sum(row.requests) for row in loose) / max(sum(sum(row.requests) for row in rows), 1)
    notes = []
    if part > 0.1:
        notes.append(
            f"{wording.counted(len(loose), 'cluster')} with {wording.percent(part)} of the requests dissolve "
            "when the clustering is done again: their borders are arbitrary."
        )
    return tuple(notes)


METHOD: Final = Method(
    name="clusters",
    title="What groups requests fall into",
    settings=ClustersSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(CLUSTERS,),
    kinds=("clusters",),
)
"""Clusters method as an entry of the registry of methods."""
