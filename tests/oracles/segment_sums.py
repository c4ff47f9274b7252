"""Counts of requests by values of attributes, request by request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from analyze.population import Category, Population
from analyze.refine.settings import StatisticsSettings
from schemas.lake import SPANS

Key = tuple[str, str | None, str, str]
"""(attribute, value or None for all requests, root type, component)"""


def first_failure(category: Category, row: int) -> str | None:
    """Component of the innermost failing span of a request."""
    failing = [
        int(p) for r, p in zip(category.failures.row, category.failures.position, strict=True) if r == row
    ]
    return category.graph.nodes[max(failing)].component if failing else None


def words_of(population: Population, sample: int) -> dict[str, set[tuple[str, str]]]:
    """Attributes and values of each request."""
    found: dict[str, set[tuple[str, str]]] = {}
    for row in population.params(sample).to_pylist():
        if row["kind"] == SPANS and row["text"] is not None:
            found.setdefault(row["request_id"], set()).add((row["key"], row["text"]))
    return found


def plain_segments(
    population: Population, sample: int, kept: Mapping[str, int], settings: StatisticsSettings
) -> tuple[dict[Key, tuple[int, int]], dict[tuple[str, str | None, str], tuple[int, int]]]:
    """(requests and failing ones by value, root type and component; requests and slow ones by value and root
    type) of a sample; kept: attributes by their number of values."""
    words = words_of(population, sample)
    passing, failing, timed, slow = (Counter[tuple[str | None, ...]]() for _ in range(4))
    times: dict[str, list[int]] = {}
    for category in population.categories:
        times.setdefault(category.graph.root, []).extend(category.response_ns[category.rows(sample)].tolist())

    def limit(all_times: list[int]) -> int | None:
        if len(all_times) < settings.slow_requests:
            return None
        return sorted(all_times)[min(int(len(all_times) * settings.slow), len(all_times) - 1)]

    for category in population.categories:
        rows = category.rows(sample)
        root = category.graph.root
        most = limit(category.response_ns[rows].tolist()) or limit(times[root])
        for row in range(rows.start, rows.stop):
            mine = {pair for pair in words.get(category.request_id[row].as_py(), set()) if pair[0] in kept}
            for attribute, text in [*mine, *((key, None) for key in kept)]:
                for component in {node.component for node in category.graph.nodes}:
                    passing[attribute, text, root, component] += 1
                    failing[attribute, text, root, component] += first_failure(category, row) == component
                if most is not None:
                    timed[attribute, text, root] += 1
                    slow[attribute, text, root] += int(category.response_ns[row]) > most
    return (
        {key: (n, failing[key]) for key, n in passing.items()},  # type: ignore[misc]
        {key: (n, slow[key]) for key, n in timed.items()},  # type: ignore[misc]
    )
