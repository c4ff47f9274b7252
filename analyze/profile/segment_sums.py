"""Numbers of requests by attribute value, stored with the statistics of a window.

The numbers are rows of relations of `schemas.statistics`. Their keys are hashes of names, so that windows can
be added up by key. For each stored attribute there is a row per value and a row for all requests (text null);
without a row for all requests, a window has no data on the attribute. Values of different attributes are
counted separately, not jointly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from analyze.population import Population
from analyze.profile.attribute_values import AttributeValue, ValueCounts, attribute_values
from analyze.profile.flat_requests import NO_LIMIT, FlatRequests, flat_requests
from analyze.refine.settings import StatisticsSettings
from schemas.arrays import B1, I8
from schemas.statistics import columns_of_relation
from stitch.columnar.hashing import hash_word, hash_words, mix

_KEYS: Final = {"segments": ("value", "root", "component"), "slow_segments": ("value", "root")}
"""Relation with sums -> its key columns; relations that are absent hold names."""


class SegmentSums(NamedTuple):
    """Relations of `schemas.statistics` with numbers of requests by attribute value, and the names of their
    keys; rows with sums are sorted by key."""

    attribute_values: pa.Table
    components: pa.Table
    segments: pa.Table
    slow_segments: pa.Table


def _empty(name: str) -> pa.Table:
    return columns_of_relation(name).empty_table()


NO_SEGMENTS: Final = SegmentSums(*(_empty(name) for name in SegmentSums._fields))


def keys_of_words(words: Sequence[str]) -> I8:
    """int64[words]: keys (hashes) of components or root types, from their names."""
    return hash_words(pa.array(words, pa.string())).view(np.int64)


def key_of_value(attribute: str, text: str | None) -> int:
    """Key (hash) of a value of an attribute. text: the value; None: the row for all requests."""
    hashed = np.array([hash_word(attribute)], np.uint64), np.array([hash_word(text)], np.uint64)
    return int(mix(mix(hashed[0]) ^ hashed[1]).view(np.int64)[0])


def segment_sums(population: Population, settings: StatisticsSettings) -> SegmentSums:
    """Count the requests of the first sample by attribute value.

    O(rows of parameters + values · requests)."""
    if not settings.most_attributes or not population.categories:
        return NO_SEGMENTS
    flat = flat_requests(population, None)
    values = attribute_values(
        [population.params(0, as_codes=True)],
        flat.ids,
        lambda key: _rank(key, settings) is not None,
        lambda counts: _kept(counts, settings),
    )
    if not values:
        return NO_SEGMENTS
    keys = sorted({value.key for value in values})
    every = np.arange(len(flat.row))
    whole = [AttributeValue(key, "", 0, every) for key in keys]
    words = [(value.key, value.value) for value in values] + [(key, None) for key in keys]
    key = np.array([key_of_value(*word) for word in words])
    return SegmentSums(
        pa.table(
            [pa.array(key), *map(list, zip(*words, strict=True))], schema=_empty("attribute_values").schema
        ),
        pa.table([keys_of_words(flat.components), [*flat.components]], schema=_empty("components").schema),
        *_counts(flat, [*values, *whole], key, settings),
    )


def _rank(key: str, settings: StatisticsSettings) -> int | None:
    """Index of the first pattern of `settings.attributes` that matches attribute `key`; None: no pattern
    does, and the attribute is not stored."""
    fits = (at for at, pattern in enumerate(settings.attributes) if fnmatchcase(key, pattern))
    return next(fits, None)


def _kept(counts: ValueCounts, settings: StatisticsSettings) -> B1:
    """bool[values]: True for values of the attributes to store: at most `most_attributes` attributes with at
    most `most_values` values, in the order of the patterns."""
    distinct = counts.distinct
    ranks = {
        at: (rank, key)
        for at, key in enumerate(counts.keys)
        if (rank := _rank(key, settings)) is not None and 0 < distinct[at] <= settings.most_values
    }
    kept = sorted(ranks, key=lambda at: ranks[at])[: settings.most_attributes]
    return np.isin(counts.key, kept)


def _counts(
    flat: FlatRequests, values: Sequence[AttributeValue], key: I8, settings: StatisticsSettings
) -> tuple[pa.Table, pa.Table]:
    """(relation `segments`, relation `slow_segments`). key: int64[values], key of each value."""
    n_roots, n_components = len(flat.roots), len(flat.components)
    request = np.concatenate([value.rows for value in values])
    graph = flat.category[request]
    cell = np.repeat(np.arange(len(values)), [len(v.rows) for v in values]) * n_roots + flat.root[graph]
    shape = len(values) * n_roots
    # Requests of a value have one of few graphs: the components that each passes are laid out once.
    pair, times = np.unique(cell * len(flat.root) + graph, return_counts=True)
    of_pair, graph = np.divmod(pair, len(flat.root))
    passed, component = np.nonzero(flat.passes[graph])
    place, inverse = np.unique(of_pair[passed] * n_components + component, return_inverse=True)
    n_of = np.bincount(inverse, times[passed])
    fails = flat.origin[request] >= 0
    origin, times = np.unique(cell[fails] * n_components + flat.origin[request[fails]], return_counts=True)
    failing = np.zeros(len(place))
    failing[np.searchsorted(place, origin)] = times
    roots, components = keys_of_words(flat.roots), keys_of_words(flat.components)
    at, component = np.divmod(place, n_components)
    limit = flat.limit_ns(settings.slow, settings.slow_requests)[request]
    timed = np.bincount(cell, limit < NO_LIMIT, minlength=shape)
    slow = np.bincount(cell, flat.response_ns[request] > limit, minlength=shape)
    there = np.flatnonzero(timed)

    def table(name: str, *columns: object) -> pa.Table:
        rows = pa.table([*columns], schema=_empty(name).schema)
        return rows.sort_by([(column, "ascending") for column in _KEYS[name]])

    return (
        table("segments", key[at // n_roots], roots[at % n_roots], components[component], n_of, failing),
        table("slow_segments", key[there // n_roots], roots[there % n_roots], timed[there], slow[there]),
    )


def summed_segments(parts: Sequence[SegmentSums]) -> SegmentSums:
    """Add up the numbers of requests of several windows by key."""
    if len(parts) < 2:
        return parts[0] if parts else NO_SEGMENTS
    found = {}
    for name in SegmentSums._fields:
        rows = pa.concat_tables([getattr(part, name) for part in parts])
        if name not in _KEYS:
            first = np.unique(rows[0].to_numpy(), return_index=True)[1]
            found[name] = rows.take(pa.array(np.sort(first))).combine_chunks()
            continue
        keys = _KEYS[name]
        sums = [column for column in rows.column_names if column not in keys]
        added = rows.group_by([*keys]).aggregate([(column, "sum") for column in sums])
        added = added.rename_columns([*keys, *sums]).sort_by([(key, "ascending") for key in keys])
        found[name] = added.cast(rows.schema)
    return SegmentSums(**found)
