"""Two classes of instances to contrast: slow and fast, before and after, a host and the rest.

Requests are compared with similar ones: of one root type and, if a root type serves many pages, of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from analyze.explain.chosen_requests import ChosenRequests, Selection, choose
from analyze.methods.distalyze.instance_logs import (
    Instances,
    LogSeries,
    request_instances,
    request_log,
)
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.methods.distalyze.window_logs import window_instances
from analyze.population import Graph, Population
from analyze.stats.density import weighted_quantile
from schemas.arrays import B1, F8
from schemas.errors import ConfigError
from schemas.report.networks import LogType
from schemas.windows import NS_PER_US
from stitch.graph.placed import END

_PAIR: Final = 2
_LEAST_SURE: Final = 0.1
_MOSTLY: Final = 0.5
"""Minimum share of a root type's requests in kinds that are large enough for comparison; below this share the
root type is compared as a whole."""
_Alike = Literal["auto", "root", "calls", "category"]


@dataclass(frozen=True, slots=True)
class Study:
    """Two classes of instances to compare."""

    root: str
    """Root type, or kind of request, of the instances; empty for all requests."""
    instances: Instances
    log: Callable[[LogType], LogSeries]
    """Function: type of log (events or states) -> log of the instances of both classes."""
    moved_us: float
    """Weight of the study, µs: difference of the classes' mean response times, beyond noise, times the weight
    of C1."""
    all_us: F8
    """Response times, µs, of all instances of the root type, also of instances in neither class,
    float64[all]; for the test of the tail."""
    all_weight: F8


@dataclass(frozen=True, slots=True)
class Studies:
    """All studies of a run, the one with the largest difference first."""

    studies: tuple[Study, ...]
    names: tuple[str, str]
    """Names of the classes, (C0, C1), e.g. (`fast`, `slow`)."""
    slow: bool
    """True if the classes are slow and fast instances, so that the response time itself defines them."""
    too_few: tuple[str, ...] = ()
    """Root types left out because they have too few instances."""
    left_out: int = 0
    """Number of studies left out because `DistalyzeSettings.roots` studies have larger differences."""


def contrast_of(population: Population, settings: DistalyzeSettings) -> Studies:
    """Make the studies that the settings ask for. Raises ConfigError for a contrast that is not possible."""
    pair = len(population.samples) == _PAIR
    kind = settings.contrast
    if kind == "auto":
        kind = "samples" if pair else "slow"
    if settings.host and settings.host not in population.hosts:
        raise ConfigError(
            f"No request of these periods touched a host '{settings.host}'.",
            remedy=f"Hosts are: {', '.join(population.hosts[:20]) or 'none known'}.",
        )
    if kind == "samples" and not pair and not settings.host:
        raise ConfigError("The contrast of two samples needs --reference and --problem.")
    if settings.instances == "request":
        return _requests(population, settings, slow=kind == "slow" and not settings.host)
    if not pair and not (settings.host and settings.instances == "host"):
        raise ConfigError(
            f"Instances '{settings.instances}' need two samples"
            + (", or a host." if settings.instances == "host" else "."),
            remedy="Give --reference and --problem, or --host with --instances host.",
        )
    windows, instances = window_instances(population, settings)
    late = int(instances.problem.sum())
    names = _names(population, settings)
    if min(late, len(instances) - late) < settings.least_instances:
        return Studies((), names, False, ("all",))
    study = Study("", instances, windows.log, 0.0, instances.performance_us, instances.weight)
    return Studies((study,), names, False)


def _names(population: Population, settings: DistalyzeSettings) -> tuple[str, str]:
    if settings.host:
        return "the rest", settings.host
    return population.samples[0].name, population.samples[-1].name


def _requests(population: Population, settings: DistalyzeSettings, *, slow: bool) -> Studies:
    roots, _ = population.root_types()
    if strange := [root for root in settings.root if root not in roots]:
        raise ConfigError(
            f"There is no root type '{strange[0]}'.", remedy=f"There are: {', '.join(roots[:20])}."
        )
    rng = np.random.default_rng(settings.seed)
    found: list[tuple[float, str, tuple[Selection, Selection], list[int]]] = []
    too_few = []
    for root in settings.root or roots:
        kinds = _kinds_of(population, root, settings.alike, slow=slow)
        classes = {
            name: _classes(population, members, settings, slow=slow) for name, members in kinds.items()
        }
        enough = {
            name: groups for name, groups in classes.items() if _smaller(groups) >= settings.least_instances
        }
        whole = _classes(population, [i for members in kinds.values() for i in members], settings, slow=slow)
        part = sum(_size(groups) for groups in enough.values()) / max(_size(whole), 1)
        if settings.alike == "auto" and part < _MOSTLY:
            enough = {root: whole} if _smaller(whole) >= settings.least_instances else {}
            kinds = {root: [i for members in kinds.values() for i in members]}
        if not enough:
            too_few.append(root)
        found += [
            (_moved_us(population, groups), name, groups, kinds[name]) for name, groups in enough.items()
        ]
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    studies = []
    for moved, root, groups, members in found[: settings.roots]:
        chosen = choose(population, groups, settings.most_instances, rng)

        def log(log_type: LogType, chosen: ChosenRequests = chosen) -> LogSeries:
            return request_log(population, chosen, log_type)

        of_all = [population.categories[i] for i in members]
        studies.append(
            Study(
                root,
                request_instances(population, chosen),
                log,
                moved,
                np.concatenate([category.response_ns for category in of_all]) / NS_PER_US,
                np.concatenate([category.weight for category in of_all]),
            )
        )
    names = ("fast", "slow") if slow else _names(population, settings)
    return Studies(tuple(studies), names, slow, tuple(too_few), max(0, len(found) - settings.roots))


def _smaller(groups: Sequence[Selection]) -> int:
    return min(group.n_requests for group in groups)


def _size(groups: Sequence[Selection]) -> int:
    return sum(group.n_requests for group in groups)


def _classes(
    population: Population, members: Sequence[int], settings: DistalyzeSettings, *, slow: bool
) -> tuple[Selection, Selection]:
    """Select the requests of classes C0 and C1 among the categories `members`."""
    problem: dict[int, tuple[B1, B1]] = {}
    if slow:
        response = np.concatenate([population.categories[i].response_ns for i in members])
        weight = np.concatenate([population.categories[i].weight for i in members])
        fast_ns, slow_ns = (
            weighted_quantile(response, weight, q) for q in (settings.fast_quantile, settings.slow_quantile)
        )
    for i in members:
        category = population.categories[i]
        if slow:
            of_one, of_other = category.response_ns <= fast_ns, category.response_ns >= slow_ns
            problem[i] = of_one & ~of_other, of_other & ~of_one
        elif settings.host:
            code = population.hosts.index(settings.host)
            touch = (
                np.zeros(category.n_requests, np.bool_)
                if category.host is None
                else np.asarray((category.host == code).any(axis=0))
            )
            problem[i] = ~touch, touch
        else:
            problem[i] = category.sample == 0, category.sample == 1
    first, second = (
        Selection({i: np.flatnonzero(classes[late]) for i, classes in problem.items()}) for late in (0, 1)
    )
    return first, second


def _moved_us(population: Population, groups: Sequence[Selection]) -> float:
    """Part of the difference of the classes' means that exceeds noise, µs, times the weight of C1.

    It is the excess over two standard errors, but at least a tenth of the difference: noise of a large root
    type must not outweigh an obvious change of a small one.
    """
    means, errors, weights = [], [], []
    for group in groups:
        parts = [(population.categories[i], rows) for i, rows in group.rows.items() if len(rows)]
        response = np.concatenate([category.response_ns[rows] for category, rows in parts]) / NS_PER_US
        weight = np.concatenate([category.weight[rows] for category, rows in parts])
        mean = float(np.average(response, weights=weight))
        variance = float(np.average((response - mean) ** 2, weights=weight))
        means.append(mean)
        errors.append(variance * float((weight**2).sum() / weight.sum() ** 2))
        weights.append(float(weight.sum()))
    moved = abs(means[1] - means[0])
    return max(moved - 2 * float(np.sqrt(sum(errors))), _LEAST_SURE * moved) * weights[1]


def _kinds_of(population: Population, root: str, alike: _Alike, *, slow: bool) -> dict[str, list[int]]:
    """Divide the categories of a root type into kinds of requests: name of the kind -> indices, in order of
    name.

    `calls`: a kind is a set of operations that the root's component calls elsewhere. Repeats and calls
    further down do not count, as these may have changed. For activity records of two periods `auto` takes the
    whole root type as one kind: there the calls of a step depend on caches, and may be the change. Slow and
    fast requests (`slow`) are always compared within a kind: a longer path is obviously slower, and the
    question is why it is slower than usual.
    """
    members = [i for i, category in enumerate(population.categories) if category.graph.root == root]
    if alike == "category":
        return {f"{root} {population.categories[i].graph.key[:10]}": [i] for i in members}
    spans = all(population.categories[i].graph.nesting is not None for i in members)
    if alike == "root" or (alike == "auto" and not spans and not slow):
        return {root: members}
    found: dict[frozenset[str], list[int]] = {}
    for i in members:
        found.setdefault(_called(population.categories[i].graph), []).append(i)
    if len(found) == 1:
        return {root: members}
    names = _kind_names(root, list(found))
    return dict(sorted(zip(names, found.values(), strict=True)))


def _called(graph: Graph) -> frozenset[str]:
    """Operations of other components that a graph's root component calls directly."""
    home = graph.nodes[0].component
    nesting = graph.nesting
    if nesting is None:
        return frozenset(
            graph.nodes[dst].operation
            for src, dst in graph.edges.tolist()
            if graph.nodes[src].component == home != graph.nodes[dst].component
        )
    return frozenset(
        node.operation
        for position, node in enumerate(graph.nodes)
        if node.side != END
        and node.component != home
        and nesting.parent[position] >= 0
        and graph.nodes[int(nesting.parent[position])].component == home
    )


def _kind_names(root: str, kinds: Sequence[frozenset[str]]) -> list[str]:
    """Names of kinds: the root type and the rarest operations of each kind, as few as make the names
    distinct. kinds: operations of each."""
    rarest = [sorted(kind, key=lambda name: (sum(name in other for other in kinds), name)) for kind in kinds]
    for listed in range(1, max(len(kind) for kind in kinds) + 1):
        names = [_kind_name(root, kind, listed) for kind in rarest]
        if len(set(names)) == len(names):
            break
    return names


def _kind_name(root: str, operations: Sequence[str], listed: int) -> str:
    if not operations:
        return f"{root} calling nothing"
    more = f" and {len(operations) - listed} more" if len(operations) > listed else ""
    return f"{root} calling {', '.join(operations[:listed])}{more}"
