"""Attributes of requests one by one: hosts along the nodes, and parameters as they were recorded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analyze.explain.chosen_requests import ChosenRequests
from analyze.population import Population


def hosts_of(population: Population, chosen: ChosenRequests, place: int) -> Mapping[str, list[str]]:
    """Distinct hosts that a request visits, by component that it passes, in the order of its nodes."""
    category = population.categories[int(chosen.category[place])]
    assert category.host is not None
    found: dict[str, list[str]] = {}
    for position, node in enumerate(category.graph.nodes):
        of = found.setdefault(node.component, [])
        code = int(category.host[position, chosen.row[place]])
        if code >= 0 and population.hosts[code] not in of:
            of.append(population.hosts[code])
    return found


def parameters_of(
    population: Population, chosen: ChosenRequests, place: int
) -> Mapping[tuple[str, str], list[str | float]]:
    """Values of a request by (operation, key), in the order of its nodes."""
    category = population.categories[int(chosen.category[place])]
    name = category.request_id[int(chosen.row[place])].as_py()
    rows = [
        row
        for row in population.params(int(chosen.sample[place])).to_pylist()
        if row["request_id"] == name and row["kind"] == category.graph.kind
    ]
    found: dict[tuple[str, str], list[str | float]] = {}
    for row in sorted(rows, key=lambda row: row["position"]):
        node = category.graph.nodes[row["position"]]
        value = row["num"] if row["text"] is None else row["text"]
        if value is not None and not (isinstance(value, float) and not np.isfinite(value)):
            found.setdefault((f"{node.component}/{node.point}", row["key"]), []).append(value)
    return found
