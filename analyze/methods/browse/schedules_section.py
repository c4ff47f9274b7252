"""The section `browse-schedules`: typical requests of the categories that matter, as train schedules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.browse.range_rows import leading_category
from analyze.methods.browse.range_section import Ranges
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.browse.train_schedule import mean_times, medoid, train_schedule
from analyze.population import Category, Population
from analyze.profile.times import AllPathTimes
from analyze.stats.moments import SampleMoments
from schemas.report.schedules import BrowseSchedulesSection, TypicalRequest


def schedules_section(
    population: Population,
    times: AllPathTimes,
    moments: SampleMoments,
    ranges: Ranges,
    settings: BrowseSettings,
) -> BrowseSchedulesSection:
    """The section."""
    sample = ranges.sample
    spent = np.nan_to_num(moments.weighted[sample] * moments.mean_us[sample])
    chosen = chosen_categories(spent.tolist(), ranges, settings.schedules)
    total = float(spent.sum())
    names = ["the slowest" if one.mode is None else f"mode {i}" for i, one in enumerate(ranges.ranges, 1)]
    return BrowseSchedulesSection(
        sample=population.samples[sample].name,
        requests=tuple(
            _typical(
                population,
                times,
                number,
                sample,
                share=float(spent[number]) / total if total > 0 else 0.0,
                leads=tuple(
                    name for name, first in zip(names, leading(ranges), strict=True) if first == number
                ),
            )
            for number in chosen
        ),
    )


def chosen_categories(spent: Sequence[float], ranges: Ranges, most: int) -> list[int]:
    """The category of the most time, then the first of each mode, then others by time."""
    by_time = [n for n in sorted(range(len(spent)), key=lambda n: (-spent[n], n)) if spent[n] > 0]
    return list(dict.fromkeys([*by_time[:1], *leading(ranges), *by_time]))[:most]


def leading(ranges: Ranges) -> list[int]:
    """[ranges] the category that stands for each."""
    return [leading_category(ranges.bins, one.first, one.past) for one in ranges.ranges]


def _typical(
    population: Population,
    times: AllPathTimes,
    number: int,
    sample: int,
    *,
    share: float,
    leads: tuple[str, ...],
) -> TypicalRequest:
    category, mine = population.categories[number], times.categories[number]
    rows = category.rows(sample)
    found = medoid(category, rows)
    graph = category.graph
    weight = category.weight[rows]
    return TypicalRequest(
        category=graph.key,
        root=graph.root,
        requests=rows.stop - rows.start,
        leads=leads,
        share_of_time=share,
        mean_us=float(weight @ category.response_ns[rows] / weight.sum()) / 1e3,
        distance=found.distance,
        medoid=train_schedule(
            graph,
            mine.graph,
            times.names,
            category.node_ns[:, found.row].astype(np.float64),
            request_id=category.request_id[found.row].as_py(),
            hosts=_hosts(population, category, found.row),
        ),
        mean=train_schedule(graph, mine.graph, times.names, mean_times(category, rows)),
    )


def _hosts(population: Population, category: Category, row: int) -> list[str]:
    """[nodes] host of each node of a request; empty where it is not known."""
    if category.host is None:
        return [node.host for node in category.graph.nodes]
    return [population.hosts[code] if code >= 0 else "" for code in category.host[:, row].tolist()]
