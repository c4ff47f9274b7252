"""What is usual of an instance of a component, learned of all that it had.

Instances come and go: a rollout renames all of them. What one of them is off its siblings by chance, and how
that moves, is said by any of them; how far it is off for good, by itself alone. So a new one is watched as
soon as it has a few values of its own, with an allowance for what those known differ by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analyze.stats.noise import row_medians
from analyze.watch.baseline import (
    MEDIAN_VARIANCE,
    MOST_POOLED,
    RUN,
    Level,
    Pooled,
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
_LEVEL: Final = Level.__slots__
_AT_ONCE: Final = 8
"""Components whose instances are learned from at once: all their values are in memory."""
_TINY: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Typical:
    """What is usual of any instance of a component."""

    kind: str
    component: str
    pooled: Pooled
    """Of one series, which stands for all; its rows name none."""
    own: Mapping[Name, float]
    """How far those that are known are off their siblings for good."""
    apart: float
    """Standard deviation of that: one of which it is not known may be off as far."""

    def of_rows(self, rows: I8, names: Sequence[Name], settings: WatchSettings) -> Pooled:
        """Say it of instances."""
        one, n = self.pooled, len(rows)
        new = np.array([name not in self.own for name in names], dtype=np.bool_)
        wide = np.maximum(one.allow, settings.allowance * self.apart)
        return replace(
            one,
            rows=rows,
            kinds=[self.kind] * n,
            middle=np.array([self.own.get(name, 0.0) for name in names]),
            season=np.zeros((n, 0)),
            sd=np.repeat(one.sd, n),
            level=_each(one.level, n),
            spread=np.repeat(one.spread, n),
            allow=np.where(new, wide, one.allow),
            n=np.repeat(one.n, n),
            past=np.repeat(one.past, n, axis=0),
            signature=np.repeat(one.signature, n, axis=0),
            both=np.zeros(n, dtype=np.bool_),
            new=new,
            many=np.ones(n),
        )


def groups_of(typical: Sequence[Typical], ring: Ring, settings: WatchSettings) -> Iterator[Pooled]:
    """Give what is usual of the instances that are there."""
    there: dict[tuple[str, str], list[Name]] = defaultdict(list)
    for name in ring.missed:
        for one in (name, name._replace(kind=INSTANCE_FAIL)):
            if one in ring.codes:
                there[one.kind, one.component].append(one)
    for one in typical:
        if names := there[one.kind, one.component]:
            rows = np.array([ring.codes[name] for name in names], dtype=np.int64)
            yield one.of_rows(rows, names, settings)


def typical_instances(
    ring: Ring, at: I8, settings: WatchSettings, anew: Mapping[Name, int]
) -> tuple[Typical, ...]:
    """Learn from ticks, ascending, what is usual of the instances of each component: of those that were there
    most, where it had more than are watched.

    anew: series whose ordinary times begin at a tick.
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
        per_tick = np.concatenate([of[name]["den"] for name in most]).mean()
        k = int(pool_of(per_tick, settings.least_events))
        pool = np.unique(at // k)
        if k <= MOST_POOLED:
            learning[k] += [_learning(kind, most, of, k, pool, settings, anew) for kind in _KINDS]
    found = []
    for k, mine in sorted(learning.items()):
        enough = [one for one in mine if np.isfinite(one.left).sum() >= settings.warm_ticks]
        for n in range(0, len(enough), _AT_ONCE):
            found += _whitened(enough[n : n + _AT_ONCE], k, np.unique(at // k), settings)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Learning:
    """Instances of a component whose values lie at hand."""

    kind: str
    names: tuple[Name, ...]
    left: F8
    """[instances, pools] what values are off, less that for good."""
    error: F8
    sd: F8
    """Of all of them, as `level`: one row."""
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
    # One instance after the other, as if they were one.
    apart_by = pool[-1] - pool[0] + RUN
    flat, at = left.reshape(1, -1), (pool + apart_by * np.arange(len(names))[:, None]).ravel()
    sd = np.maximum(spread_of(flat, [kind]), _TINY)
    level = level_of(flat, at, sd, error.reshape(1, -1), settings)
    chance = MEDIAN_VARIANCE * level.variance[0] / np.maximum(n, 1)
    apart = np.mean((own**2 - chance)[is_known]) if is_known.any() else 0.0
    known = {name: float(own[row]) for row, name in enumerate(names) if is_known[row]}
    return _Learning(kind, names, left, error, sd, level, known, float(np.sqrt(max(apart, 0.0))))


def _whitened(learning: Sequence[_Learning], k: int, pool: I8, settings: WatchSettings) -> Iterator[Typical]:
    """Learn how innovations of each component's instances scatter."""
    if not learning:
        return
    allow = [settings.floor_share * FLOORS[one.kind] for one in learning]
    of = np.repeat(np.arange(len(learning)), [len(one.names) for one in learning])
    levels = Level(*(np.concatenate([getattr(one.level, name) for one in learning])[of] for name in _LEVEL))
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
                new=np.zeros(1, dtype=np.bool_),
                many=np.array([np.isfinite(one.left).sum() / len(pool)]),
            ),
            one.own,
            one.apart,
        )


def _each(level: Level, n: int) -> Level:
    """Give a level of one series to n."""
    return Level(*(np.repeat(getattr(level, name), n) for name in _LEVEL))
