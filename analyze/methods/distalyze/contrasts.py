"""What is held against what: studies, each of two classes of instances (ALGORITHMS G.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.explain.chosen_requests import Selection, choose
from analyze.methods.distalyze.distalyze_settings import DistalyzeSettings
from analyze.methods.distalyze.instance_logs import Instances, LogType, Series
from analyze.methods.distalyze.request_logs import NS_PER_US, request_instances, request_log
from analyze.methods.distalyze.window_logs import host_windows, windows
from analyze.population import Population
from schemas.errors import ConfigError

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class Study:
    """Two classes of instances, and their logs on demand."""

    root: str
    """Root type; empty: all."""
    instances: Instances
    log: Callable[[LogType], Series]
    moved_us: float
    """Response time, summed up, that the classes differ by: what a root type weighs."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """All studies of a run."""

    studies: tuple[Study, ...]
    names: tuple[str, str]
    """What the classes are called."""
    slow: bool
    """Slow against fast: the classes were made by P itself."""
    too_few: tuple[str, ...] = ()
    """Root types that were left out, for want of instances."""
    left_out: int = 0
    """Root types that were left out because others carry more."""


def contrast_of(population: Population, settings: DistalyzeSettings) -> Contrast:
    """The studies that the settings ask for. Raises ConfigError for a contrast that is not there."""
    pair = len(population.samples) == PAIR
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
    make = host_windows if settings.instances == "host" else windows
    found = make(population, settings)
    study = Study("", found.instances, found.log, 0.0)
    few = _few(study.instances, settings.least_instances)
    return (
        Contrast((), _names(population, settings), False, ("all",))
        if few
        else Contrast((study,), _names(population, settings), False)
    )


def _names(population: Population, settings: DistalyzeSettings) -> tuple[str, str]:
    if settings.host:
        return "the rest", settings.host
    return population.samples[0].name, population.samples[-1].name


def _few(instances: Instances, least: int) -> bool:
    late = int(instances.problem.sum())
    return min(late, len(instances) - late) < least


def _requests(population: Population, settings: DistalyzeSettings, *, slow: bool) -> Contrast:
    by_root: dict[str, list[int]] = {}
    for number, category in enumerate(population.categories):
        by_root.setdefault(category.graph.root, []).append(number)
    if settings.root and (strange := [root for root in settings.root if root not in by_root]):
        raise ConfigError(
            f"There is no root type '{strange[0]}'.", remedy=f"There are: {', '.join(list(by_root)[:20])}."
        )
    rng = np.random.default_rng(settings.seed)
    found: list[tuple[float, str, tuple[Selection, Selection]]] = []
    too_few = []
    for root in settings.root or by_root:
        groups = _classes(population, by_root[root], settings, slow=slow)
        if min(group.n_requests for group in groups) < settings.least_instances:
            too_few.append(root)
            continue
        found.append((_moved_us(population, groups), root, groups))
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    studies = []
    for moved, root, groups in found[: settings.roots]:
        chosen = choose(population, groups, settings.most_instances, rng)

        def log(log_type: LogType, chosen=chosen) -> Series:  # type: ignore[no-untyped-def]
            return request_log(population, chosen, log_type)

        studies.append(Study(root, request_instances(population, chosen), log, moved))
    names = ("fast", "slow") if slow else _names(population, settings)
    return Contrast(tuple(studies), names, slow, tuple(too_few), max(0, len(found) - settings.roots))


def _classes(
    population: Population, members: Sequence[int], settings: DistalyzeSettings, *, slow: bool
) -> tuple[Selection, Selection]:
    """The requests of C0 and of C1 of one root type."""
    problem: dict[int, tuple[B1, B1]] = {}
    if slow:
        response = np.concatenate([population.categories[i].response_ns for i in members])
        weight = np.concatenate([population.categories[i].weight for i in members])
        fast_ns, slow_ns = (
            _quantile(response, weight, q) for q in (settings.fast_quantile, settings.slow_quantile)
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


def _quantile(values: I8, weight: F8, part: float) -> float:
    """The smallest value that this part of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(upto, part * upto[-1] * (1 - 1e-12))]])


def _moved_us(population: Population, groups: Sequence[Selection]) -> float:
    """Difference of the classes' means times the weight of C1."""
    total, weight = [0.0, 0.0], [0.0, 0.0]
    for late, group in enumerate(groups):
        for i, rows in group.rows.items():
            category = population.categories[i]
            total[late] += float(category.response_ns[rows] @ category.weight[rows]) / NS_PER_US
            weight[late] += float(category.weight[rows].sum())
    means = [t / max(w, 1e-300) for t, w in zip(total, weight, strict=True)]
    return abs(means[1] - means[0]) * weight[1]
