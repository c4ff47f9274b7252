"""Section `browse-schedules`: typical requests as train schedules (TR Figure 7).

A typical request is the medoid of an important category: the request nearest to the category's medians. It is
shown beside the category's mean.
"""

from __future__ import annotations

import numpy as np

from analyze.methods.browse.browse_run import BrowseRun
from analyze.methods.browse.response_bins import leading_category
from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Category
from analyze.report.drawing.train_schedule import hosts_of, train_schedule
from analyze.stats.density import weighted_quantile
from schemas.arrays import F8
from schemas.report.browse import BrowseSchedulesSection, TypicalRequest
from schemas.windows import NS_PER_US


def schedules_section(run: BrowseRun) -> BrowseSchedulesSection:
    """Fill the section: the category with most total time, then the leading category of each mode, then
    further categories by total time."""
    spent = np.nan_to_num(run.moments.weighted[-1] * run.moments.mean_us[-1])
    by_time = [number for number in np.argsort(-spent, kind="stable").tolist() if spent[number] > 0]
    leading = [leading_category(run.bins, one.first, one.past) for one in run.ranges]
    chosen = list(dict.fromkeys([*by_time[:1], *leading, *by_time]))[: run.settings.schedules]
    names = ["the slowest" if one.mode is None else f"mode {i}" for i, one in enumerate(run.ranges, 1)]
    return BrowseSchedulesSection(
        sample=run.name,
        requests=tuple(
            _typical(
                run,
                number,
                share=float(spent[number] / spent.sum()) if spent.sum() > 0 else 0.0,
                leads=tuple(name for name, first in zip(names, leading, strict=True) if first == number),
            )
            for number in chosen
        ),
    )


def _typical(run: BrowseRun, number: int, *, share: float, leads: tuple[str, ...]) -> TypicalRequest:
    population, names = run.population, run.times.names
    category, mine = population.categories[number], run.times.categories[number]
    rows = category.rows(run.sample)
    row = medoid(category, rows)
    graph = category.graph
    weight = category.weight[rows]
    return TypicalRequest(
        category=graph.key,
        root=graph.root,
        requests=rows.stop - rows.start,
        leads=leads,
        share_of_time=share,
        mean_us=float(weight @ category.response_ns[rows] / weight.sum()) / 1e3,
        medoid=train_schedule(
            graph,
            mine.graph,
            names,
            category.node_ns[:, row].astype(np.float64),
            request_id=category.request_id[row].as_py(),
            hosts=hosts_of(population, category, row),
        ),
        mean=train_schedule(graph, mine.graph, names, mean_times(category, rows)),
    )


def medoid(category: Category, rows: slice) -> int:
    """Index, among `rows`, of the request nearest to the medians of its category; of equally near ones the
    first.

    It minimises Σ_e |ln(1 + x_e/µs) - median_e| over the latencies x_e of edges. One microsecond is added
    inside the logarithm, so that negligible times do not decide. Medians are weighted (the lower). Raises
    ValueError without a request. O(edges · requests log requests).
    """
    if rows.start >= rows.stop:
        raise ValueError("a category without a request has no typical one")
    latency = edge_latency_ns(category)[rows]
    weight = category.weight[rows]
    far = np.zeros(len(weight))
    for edge in range(latency.shape[1]):
        x = np.log1p(latency[:, edge] / NS_PER_US)
        far += np.abs(x - weighted_quantile(x, weight, 0.5))
    first: int = rows.start
    return first + int(np.argmin(far))


def mean_times(category: Category, rows: slice) -> F8:
    """Mean time of each node since the request's start, weighted, ns, float64[nodes].

    dst >= src along every edge in every request, so also in the means; along every path the mean latencies of
    edges add up to the mean time of the node at its end.
    """
    weight = category.weight[rows]
    found: F8 = category.node_ns[:, rows] @ weight / weight.sum()
    return found
