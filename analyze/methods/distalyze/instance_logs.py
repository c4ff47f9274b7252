"""Logs of instances, columnar: events (what happened when) and states (what a value was when) (G.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from schemas.arrays import B1, F8, I4, I8


class LogType(StrEnum):
    """The two kinds of log messages (DIST §2)."""

    EVENT = "event"
    STATE = "state"


class Quantity(StrEnum):
    """What a state variable's values are."""

    TIME = "us"
    COUNT = "count"
    SHARE = "share"
    VALUE = "value"


class VariableName(NamedTuple):
    """What is logged."""

    component: str
    what: str
    """Operation, trace point, parameter."""
    measure: str
    """`starts`, `ends`, `reached`, `own time` …"""
    quantity: Quantity = Quantity.TIME

    @property
    def text(self) -> str:
        """One line, for people and tables."""
        where = f"{self.component}/{self.what}" if self.component else self.what
        return f"{where} {self.measure}".rstrip()


@dataclass(frozen=True, slots=True)
class Series:
    """One log of all instances, sorted by (variable, instance, time); arrays are [entries]."""

    names: tuple[VariableName, ...]
    first: I8
    """[variables + 1] where each variable's entries begin."""
    instance: I4
    time_us: F8
    """Since the instance began."""
    value: F8 | None
    """None: events."""

    @property
    def log_type(self) -> LogType:
        """Events or states."""
        return LogType.EVENT if self.value is None else LogType.STATE

    def between(self, start: int, stop: int) -> Series:
        """Variables `start` to `stop` (not included), without a copy."""
        rows = slice(int(self.first[start]), int(self.first[stop]))
        return Series(
            self.names[start:stop],
            self.first[start : stop + 1] - self.first[start],
            self.instance[rows],
            self.time_us[rows],
            None if self.value is None else self.value[rows],
        )

    def of_variables(self, kept: I8) -> Series:
        """Some variables, numbered as they come in `kept`."""
        size = np.diff(self.first)[kept]
        first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        rows = np.arange(first[-1]) + np.repeat(self.first[kept] - first[:-1], size)
        return Series(
            tuple(self.names[i] for i in kept.tolist()),
            first,
            self.instance[rows],
            self.time_us[rows],
            None if self.value is None else self.value[rows],
        )


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances of both classes; arrays are [instances]."""

    problem: B1
    """Class: False C0 (fast, reference, the rest), True C1 (slow, problem, the host)."""
    performance_us: F8
    """P: response time, or what stands for it."""
    duration_us: F8
    """What relative times are relative to."""
    weight: F8
    """Inverse sampling probability."""

    def __len__(self) -> int:
        return len(self.problem)


@dataclass(slots=True)
class LogBook:
    """Collects entries of one log in any order, variable by variable: what is sorted fits into a cache."""

    states: bool
    names: dict[VariableName, int] = field(default_factory=dict)
    _parts: dict[int, list[tuple[I4, F8, F8 | None]]] = field(default_factory=dict)

    def number(self, name: VariableName) -> int:
        """Number of a variable."""
        return self.names.setdefault(name, len(self.names))

    def add(self, variable: int, instance: I4, time_us: F8, value: F8 | None = None) -> None:
        """Entries of one variable, [entries] each; of states with values, of which only finite ones count."""
        self._parts.setdefault(variable, []).append((instance, time_us, value))

    def add_matrix(
        self, variables: Sequence[int], instance: I8, time_us: F8, value: F8 | None = None
    ) -> None:
        """Entries of every (variable, instance); matrices are [variables, instances]."""
        rows = instance.astype(np.int32)
        for place, variable in enumerate(variables):
            self.add(variable, rows, time_us[place], None if value is None else value[place])

    def series(self) -> Series:
        """What was collected, variables by name; gone from here afterwards. O(entries log entries)."""
        listed = sorted(self.names)
        sizes = [sum(len(part[0]) for part in self._parts.get(self.names[name], ())) for name in listed]
        n = sum(sizes)
        instance, time_us = np.empty(n, np.int32), np.empty(n)
        value = np.empty(n) if self.states else None
        first = np.zeros(len(listed) + 1, np.int64)
        end = 0
        for place, name in enumerate(listed):
            for one, when, read in self._sorted(self._parts.pop(self.names[name], [])):
                rows = slice(end, end + len(one))
                instance[rows], time_us[rows] = one, when
                if value is not None and read is not None:
                    value[rows] = read
                end = rows.stop
            first[place + 1] = end
        return Series(
            tuple(listed), first, instance[:end], time_us[:end], None if value is None else value[:end]
        )

    def _sorted(self, parts: Sequence[tuple[I4, F8, F8 | None]]) -> Iterator[tuple[I4, F8, F8 | None]]:
        """The entries of one variable by (instance, time)."""
        if not parts:
            return
        instance = np.concatenate([part[0] for part in parts])
        time_us = np.concatenate([part[1] for part in parts])
        value = np.concatenate([part[2] for part in parts if part[2] is not None]) if self.states else None
        if value is not None and not (fine := np.isfinite(value)).all():
            instance, time_us, value = instance[fine], time_us[fine], value[fine]
        if not (instance[1:] > instance[:-1]).all():
            order = np.lexsort((time_us, instance))
            instance, time_us = instance[order], time_us[order]
            value = None if value is None else value[order]
        yield instance, time_us, value


Logs = Mapping[LogType, Series]
