"""Baselines shared by the instances of a component, learned from all instances it had.

Instances come and go: a rollout renames every instance. The random deviation of an instance from its siblings
and its dynamics are learned from all instances together, its lasting deviation from the instance alone. So a
new instance is watched as soon as it has a few values, with an allowance for the spread of the lasting
deviations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analyze.stats.columns import each_column
from analyze.stats.noise import row_medians
from analyze.watch.baseline import (
    BLOCK,
    MEDIAN_VARIANCE,
    MOST_POOLED,
    RUN,
    Level,
    Pooled,
    Typical,
    errors,
    innovations,
    level_of,
    pool_of,
    signature_of,
    spread_of,
    values,
)
from analyze.watch.series import FLOORS, INSTANCE, INSTANCE_FAIL, Name, Ring, Rows
from analyze.watch.settings import WatchSettings
from schemas.arrays import F8, I8

_KINDS: Final = (INSTANCE, INSTANCE_FAIL)
_TINY: Final = 1e-9


def groups_of(typical: Sequence[Typical], ring: Ring, settings: WatchSettings) -> Iterator[Pooled]:
    """Yield the baselines of the instances that are present, one group per pool length (number of ticks per
    value)."""
    known = {(one.kind, one.component): one for one in typical}
    there: dict[int, list[tuple[Typical, Name]]] = defaultdict(list)
    for instance in ring.there:
        for name in (instance._replace(kind=kind) for kind in _KINDS):
            one = known.get((name.kind, name.component))
            if one is not None and name in ring.codes:
                there[one.pooled.k].append((one, name))
    for mine in there.values():
        yield _said_of([one for one, _ in mine], [name for _, name in mine], ring, settings)


def _said_of(
    typical: Sequence[Typical], names: Sequence[Name], ring: Ring, settings: WatchSettings
) -> Pooled:
    longest = max(one.pooled.past.shape[1] for one in typical)
    groups = [
        replace(group, past=np.pad(past, ((0, 0), (0, longest - past.shape[1])), constant_values=np.nan))
        for group, past in ((one.pooled, one.pooled.past) for one in typical)
    ]
    whole = each_column(groups, np.concatenate)
    new = np.array([name not in one.own for one, name in zip(typical, names, strict=True)], dtype=np.bool_)
    apart = settings.allowance * np.array([one.apart for one in typical])
    return replace(
        whole,
        rows=np.array([ring.codes[name] for name in names], dtype=np.int64),
        kinds=[name.kind for name in names],
        middle=np.array([one.own.get(name, 0.0) for one, name in zip(typical, names, strict=True)]),
        allow=np.where(new, np.maximum(whole.allow, apart), whole.allow),
        since=np.where(new, [ring.there[name._replace(kind=INSTANCE)].since for name in names], 0),
        many=np.ones(len(names)),
    )


def typical_instances(
    ring: Ring, at: I8, settings: WatchSettings, anew: Mapping[Name, int]
) -> tuple[Typical, ...]:
    """Learn the baseline that each component's instances share, from ticks `at` (ascending).

    Of too many instances, the ones present most often are used. anew: series -> first tick of its normal
    behaviour; earlier values are ignored.
    """
    parts = [part[np.isin(part["tick"], at)] for part in ring.instances]
    if not any(map(len, parts)):
        return ()
    rows = np.concatenate(parts)
    order = np.argsort(rows["series"], kind="stable")
    ends = np.searchsorted(rows["series"][order], np.arange(len(ring.instance_names) + 1))
    of = {name: rows[order[ends[one] : ends[one + 1]]] for name, one in ring.instance_names.items()}
    of_component: dict[str, list[Name]] = defaultdict(list)
    for name in of:
        if name.kind == INSTANCE and len(of[name]):
            of_component[name.component].append(name)
    learning: dict[int, list[_Learning]] = defaultdict(list)
    for _, names in sorted(of_component.items()):
        most = sorted(sorted(names, key=lambda name: (-len(of[name]), name))[: settings.most_instances])
        k = int(pool_of(_per_tick([of[name] for name in most], at), settings.least_events))
        pool = np.unique(at // k)
        if k <= MOST_POOLED:
            learning[k] += [_learning(kind, most, of, k, pool, settings, anew) for kind in _KINDS]
    found: list[Typical] = []
    for k, mine in sorted(learning.items()):
        enough = [one for one in mine if np.isfinite(one.left).sum() >= settings.warm_ticks]
        at_once = max(BLOCK // max(len(one.names) for one in enough), 1) if enough else 1
        for n in range(0, len(enough), at_once):
            found += _whitened(enough[n : n + at_once], k, np.unique(at // k), settings)
    return tuple(found)


def _per_tick(instances: Sequence[Rows], at: I8) -> F8:
    """Mean number of visits per tick and instance; the ticks are those between an instance's first and last
    visit, without visits or not. at: ticks learned from, ascending."""
    ends = [np.searchsorted(at, [rows["tick"].min(), rows["tick"].max()]) for rows in instances]
    ticks = sum(int(last) - int(first) + 1 for first, last in ends)
    return np.asarray(sum(rows["den"].sum() for rows in instances) / ticks)


@dataclass(frozen=True, slots=True)
class _Learning:
    """Values of a component's instances, from which their common baseline is learned."""

    kind: str
    names: tuple[Name, ...]
    left: F8
    """[instances, pools] deviation from the siblings in each pool (k consecutive ticks), minus the instance's
    lasting deviation; NaN where there are too few events."""
    error: F8
    sd: F8
    """[1] standard deviation over all instances together."""
    level: Level
    own: Mapping[Name, float]
    apart: float


def _learning(
    kind: str,
    instances: Sequence[Name],
    of: Mapping[Name, Rows],
    k: int,
    pool: I8,
    settings: WatchSettings,
    anew: Mapping[Name, int],
) -> _Learning:
    names = tuple(name._replace(kind=kind) for name in instances)
    sums = np.zeros((3, len(names), len(pool)))
    for row, (name, visits) in enumerate(zip(names, instances, strict=True)):
        for place, (column, source) in enumerate((("den", visits), ("num", name), ("sq", name))):
            if source in of:
                at = np.searchsorted(pool, of[source]["tick"] // k)
                np.add.at(sums[place, row], at, of[source][column])
    kinds = [kind] * len(names)
    x, error = values(sums, kinds, settings.least_events), errors(sums, kinds)
    for row, name in enumerate(names):
        x[row, pool * k < anew.get(name, 0)] = np.nan
    n = np.isfinite(x).sum(axis=1)
    is_known = n >= settings.warm_ticks
    own = np.where(is_known, row_medians(x), 0.0)
    left = x - own[:, None]
    # Concatenate the instances with gaps between them, as if they were one series.
    apart_by = pool[-1] - pool[0] + RUN
    flat, at = left.reshape(1, -1), (pool + apart_by * np.arange(len(names))[:, None]).ravel()
    sd = np.maximum(spread_of(flat, [kind]), _TINY)
    level = level_of(flat, at, sd, error.reshape(1, -1), settings)
    chance = MEDIAN_VARIANCE * level.variance[0] / np.maximum(n, 1)
    apart = np.mean((own**2 - chance)[is_known]) if is_known.any() else 0.0
    known = {name: float(own[row]) for row, name in enumerate(names) if is_known[row]}
    return _Learning(kind, names, left, error, sd, level, known, float(np.sqrt(max(apart, 0.0))))


def _whitened(learning: Sequence[_Learning], k: int, pool: I8, settings: WatchSettings) -> Iterator[Typical]:
    """Yield the baseline of each component's instances; the spread of their innovations completes it."""
    allow = [settings.floor_share * FLOORS[one.kind] for one in learning]
    of = np.repeat(np.arange(len(learning)), [len(one.names) for one in learning])
    levels = each_column([one.level for one in learning for _ in one.names], np.concatenate)
    left, error = (np.concatenate([getattr(one, name) for one in learning]) for name in ("left", "error"))
    white = innovations(left, pool, error, levels, np.array(allow)[of])[0]
    for number, one in enumerate(learning):
        mine = white[of == number].reshape(1, -1)
        past = np.sort(mine[np.isfinite(mine)])
        if len(past) > settings.baseline_ticks:
            past = past[np.linspace(0, len(past) - 1, settings.baseline_ticks).astype(np.int64)]
        yield Typical(
            one.kind,
            one.names[0].component,
            Pooled(
                k=k,
                rows=np.zeros(0, dtype=np.int64),
                kinds=[one.kind],
                middle=np.zeros(1),
                season=np.zeros((1, 0)),
                sd=one.sd,
                level=one.level,
                spread=spread_of(mine, [one.kind]),
                allow=np.array([allow[number]]),
                n=np.array([len(past)]),
                past=past[None],
                signature=signature_of(one.level, settings.size_values),
                both=np.zeros(1, dtype=np.bool_),
                since=np.zeros(1, dtype=np.int64),
                many=np.array([np.isfinite(one.left).sum() / len(pool)]),
            ),
            one.own,
            one.apart,
        )
