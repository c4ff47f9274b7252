"""Build the table of a contrast, that is of two classes of requests to be compared, with their attributes.

Identifiers of a period (builds, versions, configurations, pods) are separated from attributes that could
explain a difference within a period.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from analyze.explain.chosen_requests import ChosenRequests, Selection, choose
from analyze.explain.columns import (
    OF_PERIODS,
    REACHES,
    REQUEST,
    TYPE,
    AttributeColumn,
    RequestHosts,
    request_columns,
)
from analyze.explain.parameters import ReadParameters, parameter_columns, request_structures
from analyze.explain.settings import IDENTIFIER_NAMES, SETTINGS
from analyze.population import Population
from analyze.stats.rank import rank_scores
from schemas.arrays import B1, F8, I4, I8
from schemas.report.explanations import ChangedIdentifier, Contrast

_ONE_VALUE: Final = ("", "first", "last", "mode", "min", "max")
_PLAIN = ("first", "last", "min", "max", "mean", "mode")


def _changed_identifiers(
    columns: Sequence[AttributeColumn], chosen: ChosenRequests
) -> dict[tuple[str, str], ChangedIdentifier]:
    """Find identifiers that have other values in the problem than in the reference: (where, key) of the
    column -> identifier with its values.

    There are two kinds: words that are all different in the problem (a version, a configuration, the pods of
    a deployment), and numbers with an identifier's name and one value per period. A quantity that changed (a
    size of 16384 that is now 4096) is not an identifier. The requests of both classes are examined: a value
    that only the affected requests of the problem have is an explanation, not an identifier.
    """
    fields: dict[tuple[str, str], list[AttributeColumn]] = {}
    for column in columns:
        if column.aggregate in _ONE_VALUE:
            fields.setdefault((column.where, column.key), []).append(column)
    found: dict[tuple[str, str], ChangedIdentifier] = {}
    for (where, key), of_field in fields.items():
        if (where, key) == (REQUEST, TYPE) or key.startswith(REACHES):
            continue
        pairs = [_values(column, chosen) for column in of_field]
        if all(pair is not None for pair in pairs) and pairs[0] is not None:
            before, after = (_values_text(of_field[0], values) for values in pairs[0])
            found[where, key] = ChangedIdentifier(where=where, key=key, before=before, after=after)
    return found


def _values(column: AttributeColumn, chosen: ChosenRequests) -> tuple[F8, F8] | None:
    """(distinct values of a column in the first period, in the second period) if the column is an identifier:
    few values, none in both periods. None if it is not."""
    known = ~np.isnan(column.values)
    passes = np.ones_like(known) if column.passes is None else column.passes
    periods = np.unique(chosen.sample)
    if len(periods) != 2:
        return None
    if column.levels is None and not re.search(IDENTIFIER_NAMES, column.key, re.IGNORECASE):
        return None
    sides: list[F8] = []
    for period in periods:
        mine = chosen.sample == period
        values = column.values[known & mine]
        if len(values) < max(SETTINGS.least_leaf, SETTINGS.known * (passes & mine).sum()):
            return None
        found, times = np.unique(values, return_counts=True)
        # A deployment takes its time: some requests still have the value of the other period.
        sides.append(found[times >= SETTINGS.left_over * len(values)])
    most = 1 if column.levels is None else SETTINGS.levels
    if max(len(side) for side in sides) > most or np.intersect1d(sides[0], sides[1]).size:
        return None
    return sides[0], sides[1]


def _values_text(column: AttributeColumn, values: F8) -> str:
    words = [f"{v:g}" if column.levels is None else column.levels[int(v)] for v in values]
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "")


@dataclass(frozen=True, slots=True)
class Controls:
    """Control requests of both periods, for the test whether an explanation is specific to the problem."""

    columns: tuple[AttributeColumn, ...]
    """Columns of the table (`FeatureTable.columns`) for the control requests."""
    problem: B1
    """bool[requests]: True for requests of the problem."""
    usual: B1
    """bool[requests]: True for requests of the reference with the same symptom as the affected requests."""


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Attributes of two classes of requests: affected requests first, then others, each in time order."""

    contrast: Contrast
    affected: B1
    """bool[requests]: True for requests of the affected class."""
    block: I4
    """int32[requests]: number of the time block, from 0; labels are permuted within a block."""
    fold: I4
    """int32[requests]: number of the cross-validation fold; a fold is an equal part of each class in time
    order."""
    columns: tuple[AttributeColumn, ...]
    """Columns whose values can be compared between the classes."""
    identifiers: tuple[ChangedIdentifier, ...]
    had_columns: bool
    """True if requests have parameters or hosts at all, including those that are not in `columns`."""
    controls: Controls | None = None


def features(
    population: Population,
    affected: Selection,
    others: Selection,
    *,
    words: tuple[str, str] = ("affected requests", "other requests"),
) -> FeatureTable:
    """Table of the classes `affected` and `others`.

    words: descriptions of the two classes. If the classes are from different periods, each class is cut into
    time blocks separately, else both together. Raises LakeError if parameters cannot be read, ValueError for
    rows that do not exist.
    """
    (observed,) = observe(population, [sampled(population, (affected, others))])
    return observed.contrast(0, [1], words)


@dataclass(frozen=True, slots=True)
class Observations:
    """Sampled requests of several groups, with all attributes of the requests."""

    chosen: ChosenRequests
    columns: tuple[AttributeColumn, ...]
    """Attributes of all requests in `chosen`."""
    identifiers: Mapping[tuple[str, str], ChangedIdentifier] = field(default_factory=dict)
    """Identifiers that changed with the period, in the requests of all groups: (where, key) -> identifier."""

    def contrast(
        self,
        affected: int,
        others: Sequence[int],
        words: tuple[str, str],
        *,
        control: tuple[Sequence[int], Sequence[int], int] | None = None,
    ) -> FeatureTable:
        """Table of two classes: group number `affected`, and the groups with numbers `others` together.

        words: descriptions of the two classes. control: (groups of the problem, groups of the reference,
        group of the reference with the symptom) for `Controls`; None: no controls.
        """
        chosen = self.chosen
        rows = np.concatenate([self._rows([affected]), self._rows(others)])
        label = chosen.group[rows] == affected
        sample = chosen.sample[rows]
        apart = not np.intersect1d(sample[label], sample[~label]).size
        time = chosen.start_ns[rows]
        block = time_blocks(time, label, SETTINGS.blocks, apart=apart)
        fold = time_blocks(time, label, SETTINGS.folds, apart=True)
        columns = self.columns
        if apart:
            columns = tuple(
                column
                for column in columns
                if (column.where, column.key) not in self.identifiers
                and (column.where != REQUEST or column.key not in OF_PERIODS)
            )
        pairs = [(column, column.at(rows)) for column in columns]
        pairs = [(whole, part) for whole, part in pairs if _comparable(part, label, time)]
        if len(pairs) > SETTINGS.most_columns:
            gone = [np.isnan(part.values).sum() for _, part in pairs]
            kept = np.sort(np.argsort(gone, kind="stable")[: SETTINGS.most_columns])
            pairs = [pairs[k] for k in kept]
        controls = None
        if control is not None:
            checked = np.concatenate([self._rows(groups) for groups in control[:2]])
            controls = Controls(
                tuple(whole.at(checked) for whole, _ in pairs),
                np.isin(chosen.group[checked], control[0]),
                chosen.group[checked] == control[2],
            )
        return FeatureTable(
            contrast=Contrast(
                affected=words[0],
                others=words[1],
                n_affected=chosen.available[affected],
                n_others=sum(chosen.available[group] for group in others),
            ),
            affected=label,
            block=block,
            fold=fold,
            columns=tuple(part for _, part in pairs),
            identifiers=tuple(self.identifiers.values()),
            had_columns=any(c.where != REQUEST for c in self.columns),
            controls=controls,
        )

    def _rows(self, groups: Sequence[int]) -> I8:
        """int64[n]: indices of requests of `groups`, in the order of `groups`.

        The same share of the available requests of each group is taken, so that their mix is preserved."""
        chosen = self.chosen
        parts = [np.flatnonzero(chosen.group == group) for group in groups]
        share = min(
            (
                len(part) / max(chosen.available[group], 1)
                for group, part in zip(groups, parts, strict=True)
                if len(part)
            ),
            default=1.0,
        )
        kept: list[I8] = [np.zeros(0, np.int64)]
        for group, part in zip(groups, parts, strict=True):
            n = min(len(part), max(1, round(share * chosen.available[group])))
            kept.append(part[np.arange(n) * len(part) // max(n, 1)] if len(part) else part)
        return np.concatenate(kept)


def sampled(population: Population, groups: Sequence[Selection]) -> ChosenRequests:
    """Sample requests of every group, and of a last group, the background: further requests of the same root
    types. A request in several groups counts in the first of them only."""
    alone: list[Selection] = []
    for group in groups:
        group.check(population)
        for earlier in groups[: len(alone)]:
            group = group.without(earlier)
        alone.append(group)
    groups = alone
    rng = np.random.default_rng(SETTINGS.seed)
    background = _background(population, groups, SETTINGS.most_background)
    return choose(population, (*groups, background), SETTINGS.most_requests, rng)


def observe(population: Population, asked: Sequence[ChosenRequests]) -> Iterator[Observations]:
    """Yield the attributes of each set of chosen requests, in order.

    Parameters and hosts of several sets are read together, at most about `most_read` requests in one pass.
    """
    if not any(len(chosen) for chosen in asked):
        yield from (Observations(chosen, ()) for chosen in asked)
        return
    together, places = asked[0].union(*asked[1:])
    structures = request_structures(population, together)
    for part in _passes(asked):
        of_part = np.unique(np.concatenate(places[part]))
        several = together.take(of_part)
        read = ReadParameters.read(population, several, structures.of(of_part))
        hosts = RequestHosts.read(population, several)
        for chosen, whole in zip(asked[part], places[part], strict=True):
            mine = np.searchsorted(of_part, whole)
            # Parameters first: of equivalent columns the first is named, and a host often follows from one.
            columns: list[AttributeColumn] = [
                *_distinct(parameter_columns(read.of(mine))),
                *request_columns(population, chosen, hosts.columns(mine)),
            ]
            columns += _changes(columns, SETTINGS.most_changes)
            yield Observations(chosen, tuple(columns), _changed_identifiers(columns, chosen))


def _passes(asked: Sequence[ChosenRequests]) -> Iterator[slice]:
    """Yield ranges of consecutive sets to be read in one pass: at most `most_read` requests, but at least one
    set that has some."""
    first, n = 0, 0
    for number, chosen in enumerate(asked):
        if n and len(chosen) and n + len(chosen) > SETTINGS.most_read:
            yield slice(first, number)
            first, n = number, 0
        n += len(chosen)
    yield slice(first, len(asked))


def _background(population: Population, groups: Sequence[Selection], most: int) -> Selection:
    """Select at most `most` requests that are in none of `groups` but have a root type of one of them, evenly
    spaced over the rows of the categories."""
    taken = [(index, rows) for group in groups for index, rows in group.rows.items() if len(rows)]
    roots = {population.categories[index].graph.root for index, _ in taken}
    free = {
        index: np.ones(category.n_requests, dtype=np.bool_)
        for index, category in enumerate(population.categories)
        if category.graph.root in roots
    }
    for index, rows in taken:
        free[index][rows] = False
    step = max(1, -(-sum(int(rows.sum()) for rows in free.values()) // most))
    return Selection({index: np.flatnonzero(rows)[index % step :: step] for index, rows in free.items()})


def time_blocks(time: I8, label: B1, n: int, *, apart: bool) -> I4:
    """int32[rows]: number of each row's time block. Blocks have equal numbers of rows in time order, of each
    class (apart=True) or of both classes together.

    time: int64[rows]; label: bool[rows], True for one class. There are at most `n` blocks; fewer if the
    smaller class has fewer than 10 n rows (together), so that a block has about ten rows of each class, or
    fewer than n rows (apart).
    """
    smaller = int(min(label.sum(), (~label).sum()))
    n = max(1, min(n, smaller // 10)) if not apart else max(1, min(n, smaller))
    block = np.zeros(len(time), np.int32)
    for group in (label, ~label) if apart else (np.ones_like(label),):
        rows = np.flatnonzero(group)
        order = rows[np.argsort(time[rows], kind="stable")]
        block[order] = np.arange(len(rows)) * n // max(len(rows), 1)
    return block


def _comparable(column: AttributeColumn, label: B1, time: I8) -> bool:
    """True if a column can be compared between two classes: its name is not to be ignored, enough requests of
    both classes run the operation, and its values are neither ids nor a clock.

    label: bool[requests], True for the affected class; time: int64[requests]."""
    if any(re.search(pattern, column.key, re.IGNORECASE) for pattern in SETTINGS.ignored):
        return False
    if column.passes is not None:
        shares = [column.passes[side].mean() if side.any() else 0.0 for side in (label, ~label)]
        if min(shares) < SETTINGS.presence:
            return False
    values = column.values
    known = ~np.isnan(values)
    distinct = len(np.unique(values[known]))
    if distinct + (not known.all()) < 2:
        return False
    if not column.numeric:
        return distinct < SETTINGS.few_values or distinct <= SETTINGS.alike * known.sum()
    return distinct < SETTINGS.ranked or not all(
        _follows_time(values[side], time[side]) for side in (label, ~label)
    )


def _follows_time(values: F8, time: I8) -> bool:
    """True if the values of a class increase or decrease with time: a counter, a clock or a sequence
    number."""
    known = ~np.isnan(values)
    if known.sum() < SETTINGS.ranked:
        return False
    of_values, of_time = rank_scores(np.stack([values[known], time[known]]))
    return abs(float(of_values @ of_time)) > SETTINGS.with_time


def _distinct(columns: Iterable[AttributeColumn]) -> tuple[AttributeColumn, ...]:
    """Drop columns with the same values as another aggregate of the same parameter."""
    kept: dict[tuple[str, str, bytes], AttributeColumn] = {}
    for column in columns:
        _, codes = np.unique(column.values, return_inverse=True)
        kept.setdefault((column.where, column.key, codes.astype(np.int32).tobytes()), column)
    alone = dict.fromkeys(((c.where, c.key) for c in kept.values()), 0)
    for column in kept.values():
        alone[column.where, column.key] += 1
    return tuple(
        replace(c, aggregate="") if alone[c.where, c.key] == 1 and c.aggregate in _PLAIN else c
        for c in kept.values()
    )


def _changes(columns: Sequence[AttributeColumn], most: int) -> list[AttributeColumn]:
    """At most `most` columns of the change of a number between consecutive nodes that record it, for example
    the growth of bytes from component to component."""
    by_key: dict[str, list[AttributeColumn]] = {}
    for column in columns:
        if column.numeric and column.aggregate in ("", "first") and column.where != REQUEST:
            by_key.setdefault(column.key, []).append(column)
    changes: list[AttributeColumn] = []
    for key, found in sorted(by_key.items()):
        for one, other in pairwise(found):
            if len(changes) == most:
                return changes
            both = None if one.passes is None or other.passes is None else one.passes & other.passes
            with np.errstate(over="ignore"):
                difference = other.values - one.values
            difference[~np.isfinite(difference)] = np.nan
            changes.append(
                AttributeColumn(
                    f"{one.where} → {other.where}", key, difference, aggregate="change", passes=both
                )
            )
    return changes
