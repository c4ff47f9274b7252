"""Logs of instances, columnar: events (what happened when) and states (what a value was when) (G.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int64]
I4 = npt.NDArray[np.int32]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]


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
    variable: I4
    instance: I4
    time_us: F8
    """Since the instance began."""
    value: F8 | None
    """None: events."""

    @property
    def log_type(self) -> LogType:
        """Events or states."""
        return LogType.EVENT if self.value is None else LogType.STATE

    def of_variables(self, kept: I8) -> Series:
        """Some variables, numbered as they come in `kept`."""
        place = np.full(len(self.names), -1, np.int32)
        place[kept] = np.arange(len(kept), dtype=np.int32)
        rows = np.flatnonzero(place[self.variable] >= 0)
        variable = place[self.variable[rows]]
        order = np.argsort(variable, kind="stable")
        rows = rows[order]
        return Series(
            tuple(self.names[i] for i in kept.tolist()),
            variable[order],
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
    """Collects entries of one log in any order."""

    states: bool
    names: dict[VariableName, int] = field(default_factory=dict)
    _parts: list[tuple[I4, I4, F8, F8 | None]] = field(default_factory=list)

    def number(self, name: VariableName) -> int:
        """Number of a variable."""
        return self.names.setdefault(name, len(self.names))

    def add(self, variable: I4, instance: I4, time_us: F8, value: F8 | None = None) -> None:
        """Entries, [entries] each. Values that are not finite are left out."""
        if self.states:
            if value is None:
                raise ValueError("a state without a value")
            fine = np.isfinite(value)
            if not fine.all():
                variable, instance = variable[fine], instance[fine]
                time_us, value = time_us[fine], value[fine]
        self._parts.append((variable, instance, time_us, value))

    def add_matrix(
        self, variables: Sequence[int], instance: I8, time_us: F8, value: F8 | None = None
    ) -> None:
        """Entries of every (variable, instance); matrices are [variables, instances]."""
        shape = (len(variables), len(instance))
        self.add(
            np.repeat(np.asarray(variables, np.int32), shape[1]),
            np.tile(instance.astype(np.int32), shape[0]),
            time_us.reshape(-1),
            None if value is None else value.reshape(-1),
        )

    def series(self) -> Series:
        """What was collected, variables by name; gone from here afterwards. O(entries log entries)."""
        listed = sorted(self.names)
        place = np.empty(len(listed), np.int32)
        place[[self.names[name] for name in listed]] = np.arange(len(listed), dtype=np.int32)
        parts, self._parts = self._parts, []
        if not parts:
            empty = np.zeros(0, np.int32)
            return Series(tuple(listed), empty, empty, np.zeros(0), np.zeros(0) if self.states else None)
        variable = place[np.concatenate([part[0] for part in parts])]
        instance = np.concatenate([part[1] for part in parts])
        time_us = np.concatenate([part[2] for part in parts])
        value = np.concatenate([part[3] for part in parts if part[3] is not None]) if self.states else None
        del parts
        key = variable.astype(np.int64) << 32 | instance
        order = np.argsort(key, kind="stable")
        key = key[order]
        again = np.zeros(len(key), np.bool_)
        again[1:] = key[1:] == key[:-1]
        if again.any():
            # Only where a variable occurs several times in an instance do times need an order.
            several = again.copy()
            several[:-1] |= again[1:]
            rows = np.flatnonzero(several)
            mine = order[rows]
            order[rows] = mine[np.lexsort((time_us[mine], key[rows]))]
        return Series(
            tuple(listed),
            variable[order],
            instance[order],
            time_us[order],
            None if value is None else value[order],
        )


Logs = Mapping[LogType, Series]
