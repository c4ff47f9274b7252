"""Read which requests have which values of attributes, from codes, with bounds on attributes and values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.methods.robust.settings import SegmentSettings
from schemas.arrays import B1, I8
from schemas.lake import SPANS

_MOST_CELLS: Final = 1 << 23
"""Pairs of key and word that are counted in a table of 64 MB; more are sorted."""


@dataclass(frozen=True, slots=True)
class RequestIds:
    """Ids by which requests are joined with attributes. Several may have one id: a request, and the messages
    that it sent; an id that has both spans and records is of two requests that know nothing of each other."""

    words: pa.StringArray
    """Distinct ids."""
    code: I8
    """[requests] 2 * place in `words`, plus 1 for a request made of spans."""

    def codes_of(self, table: pa.Table) -> I8:
        """Give the codes of a table's `request_id` and `kind`; negative for those of no request."""
        id_code, id_words = _codes(table["request_id"])
        kind_code, kind_words = _codes(table["kind"])
        place = pc.index_in(id_words, value_set=self.words).fill_null(-1).to_numpy().astype(np.int64)
        of_spans = pc.equal(kind_words.cast(pa.string()), SPANS).to_numpy(zero_copy_only=False)
        return np.asarray(2 * place[id_code] + of_spans.astype(np.int64)[kind_code])


def request_ids(ids: pa.StringArray, of_spans: B1) -> RequestIds:
    """Number the ids of requests; of_spans: [requests] True if made of spans."""
    coded = ids.dictionary_encode()
    return RequestIds(coded.dictionary, 2 * coded.indices.to_numpy().astype(np.int64) + of_spans)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """Value of an attribute, with the requests that have it on any of their spans."""

    key: str
    value: str
    distinct: int
    """Number of values of the attribute."""
    rows: I8
    """Indices of the requests that have the value, ascending."""


def attribute_values(
    tables: Sequence[pa.Table],
    ids: RequestIds,
    n_requests: int,
    settings: SegmentSettings,
    without: Collection[str],
    only: Collection[tuple[str, str]] | None = None,
) -> list[AttributeValue]:
    """Give the values of attributes that do not nearly identify a request, the most frequent of each, or
    just `only`.

    n_requests: those that the tables are of, however many `ids` has. without: attributes left out. Numbers
    that are not whole are no value. O(rows of the tables, and values x requests).
    """
    table = pa.concat_tables(tables).unify_dictionaries()
    if not table.num_rows:
        return []
    request = ids.codes_of(table)
    key_code, key_words = _codes(table["key"])
    text_code, text_words = _codes(table["text"])
    keys = [str(word) for word in key_words.to_pylist()]
    words, word_code = _with_numbers(table, text_code, text_words)
    wanted = np.array([key not in without for key in keys], dtype=np.bool_)
    there = np.flatnonzero((request >= 0) & (word_code >= 0) & wanted[key_code])
    request, pair = request[there], key_code[there].astype(np.int64) * len(words) + word_code[there]
    kinds, times = _counted(pair, len(keys) * len(words))
    key = kinds // len(words)
    distinct = np.bincount(key, minlength=len(keys))
    if only is None:
        kept = _kept(key, times, distinct, n_requests, settings)
    else:
        texts = words.take(pa.array(kinds % len(words))).to_pylist()
        kept = np.array(
            [(keys[k], text) in only for k, text in zip(key.tolist(), texts, strict=True)], np.bool_
        )
    number = np.full(len(kinds), -1, dtype=np.int32)
    number[kept] = np.arange(int(kept.sum()))
    code = number[np.searchsorted(kinds, pair)]
    inside = np.flatnonzero(code >= 0)
    order = inside[np.argsort(code[inside], kind="stable")]
    ends = np.cumsum(np.bincount(code[inside], minlength=int(kept.sum())))
    texts = words.take(pa.array(kinds[kept] % len(words))).to_pylist()
    found = []
    flags = np.zeros(2 * len(ids.words), dtype=np.bool_)
    for at, mine in enumerate(np.split(request[order], ends[:-1]) if len(ends) else ()):
        flags[mine] = True
        rows = np.flatnonzero(flags[ids.code])
        flags[mine] = False
        which = int(key[kept][at])
        found.append(AttributeValue(keys[which], str(texts[at]), int(distinct[which]), rows))
    return found


def _codes(column: pa.ChunkedArray) -> tuple[I8, pa.Array]:
    """Give ([rows] codes, -1 for null; distinct words)."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    one = column.combine_chunks()
    one = one.chunk(0) if isinstance(one, pa.ChunkedArray) else one
    return one.indices.fill_null(-1).to_numpy(), one.dictionary


def _with_numbers(table: pa.Table, text_code: I8, text_words: pa.Array) -> tuple[pa.Array, I8]:
    """Give words, with whole numbers among them, and [rows] codes of them; -1 for no value."""
    code = text_code.astype(np.int64)
    number = table["num"].to_numpy()
    whole = np.flatnonzero((text_code < 0) & np.isfinite(number) & (number == np.rint(number)))
    if len(whole):
        numbers, place = np.unique(number[whole], return_inverse=True)
        code[whole] = len(text_words) + place
        said = pa.array([f"{value:.0f}" for value in numbers.tolist()], pa.string())
        text_words = pa.concat_arrays([text_words.cast(pa.string()), said])
    return text_words, code


def _counted(pair: I8, n_pairs: int) -> tuple[I8, I8]:
    """Give (the pairs that occur, ascending; how often)."""
    if n_pairs <= _MOST_CELLS:
        times = np.bincount(pair, minlength=n_pairs)
        kinds = np.flatnonzero(times)
        return kinds, times[kinds]
    return np.unique(pair, return_counts=True)


def _kept(key: I8, times: I8, distinct: I8, n_requests: int, settings: SegmentSettings) -> B1:
    """Mark the values that are tested: the most frequent of attributes that do not identify a request."""
    order = np.lexsort((-times, key))
    first = np.searchsorted(key[order], np.arange(len(distinct)))
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.arange(len(key)) - first[key[order]]
    most = np.maximum(n_requests * settings.identifies, settings.few_values)
    return np.asarray(
        (distinct[key] <= most) & (rank < settings.most_values) & (times >= settings.least_requests)
    )
