"""What is held against what: studies, each of two classes of instances (ALGORITHMS G.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.explain.chosen_requests import ChosenRequests, Selection, choose
from analyze.methods.distalyze.distalyze_settings import DistalyzeSettings
from analyze.methods.distalyze.instance_logs import Instances, LogType, Series
from analyze.methods.distalyze.request_kinds import kinds_of
from analyze.methods.distalyze.request_logs import NS_PER_US, request_instances, request_log
from analyze.methods.distalyze.window_logs import host_windows, windows
from analyze.population import Population
from schemas.arrays import B1, F8, I8
from schemas.errors import ConfigError

PAIR: Final = 2
_LEAST_SURE: Final = 0.1
MOSTLY: Final = 0.5
"""Kinds that are too small to be looked at must be fewer than this part of a root type's requests; else the
root type is looked at as a whole."""


@dataclass(frozen=True, slots=True)
class Study:
    """Two classes of instances, and their logs on demand."""

    root: str
    """Root type, or kind of request; empty: all."""
    instances: Instances
    log: Callable[[LogType], Series]
    moved_us: float
    """Response time, summed up, that the classes differ by: what a root type weighs."""
    all_us: F8
    """P of all instances, those of neither class among them: what a tail is told by."""
    all_weight: F8


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
    instances = found.instances
    study = Study("", instances, found.log, 0.0, instances.performance_us, instances.weight)
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
    roots = sorted({category.graph.root for category in population.categories})
    if strange := [root for root in settings.root if root not in roots]:
        raise ConfigError(
            f"There is no root type '{strange[0]}'.", remedy=f"There are: {', '.join(roots[:20])}."
        )
    rng = np.random.default_rng(settings.seed)
    found: list[tuple[float, str, tuple[Selection, Selection], list[int]]] = []
    too_few = []
    for root in settings.root or roots:
        kinds = kinds_of(population, root, settings.alike, slow=slow)
        classes = {
            name: _classes(population, members, settings, slow=slow) for name, members in kinds.items()
        }
        enough = {
            name: groups for name, groups in classes.items() if _smaller(groups) >= settings.least_instances
        }
        whole = _classes(population, [i for members in kinds.values() for i in members], settings, slow=slow)
        part = sum(_size(groups) for groups in enough.values()) / max(_size(whole), 1)
        if settings.alike == "auto" and part < MOSTLY:
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

        def log(log_type: LogType, chosen: ChosenRequests = chosen) -> Series:
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
    return Contrast(tuple(studies), names, slow, tuple(too_few), max(0, len(found) - settings.roots))


def _smaller(groups: Sequence[Selection]) -> int:
    return min(group.n_requests for group in groups)


def _size(groups: Sequence[Selection]) -> int:
    return sum(group.n_requests for group in groups)


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
    """Difference of the classes' means that is sure, times the weight of C1.

    Sure is what is beyond two standard errors, or a tenth: noise of a large root type must not outweigh what
    is plain in a small one.
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
