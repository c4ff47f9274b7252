"""Find the requests that have each value of an attribute (for example `http.method` = `GET`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I4, I8
from schemas.lake import SPANS
from stitch.columnar.runs import group_stably

_MOST_CELLS: Final = 1 << 23
"""Maximum number of (attribute, word) pairs that are counted in a dense array (64 MB); more are sorted."""


@dataclass(frozen=True, slots=True)
class RequestIds:
    """Codes that join requests with the rows of attribute tables.

    Several requests may have the same code: a request and the messages that it sent. An id that occurs with
    spans and with activity records belongs to two unrelated requests, with different codes."""

    words: pa.StringArray
    """Distinct request ids."""
    code: I8
    """int64[requests]: 2 * index into `words`, plus 1 for a request made of spans."""

    def codes_of(self, id_words: pa.Array, kind_words: pa.Array) -> tuple[I8, I8]:
        """(int64[id_words], int64[kind_words]): summands; their sum for a row of a table is the code of the
        row's request, or below 0 if the request is unknown.

        id_words, kind_words: dictionaries of the table's columns `request_id` and `kind`."""
        place = pc.index_in(id_words, value_set=self.words).fill_null(-1).to_numpy().astype(np.int64)
        return 2 * place, pc.equal(kind_words.cast(pa.string()), SPANS).to_numpy(zero_copy_only=False).astype(
            np.int64
        )


def request_ids(ids: pa.StringArray, of_spans: B1) -> RequestIds:
    """Codes of requests. ids: [requests], request ids. of_spans: bool[requests], True if the request is made
    of spans, False if of activity records."""
    coded = ids.dictionary_encode()
    return RequestIds(coded.dictionary, 2 * coded.indices.to_numpy().astype(np.int64) + of_spans)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """Value of an attribute, with the requests that have it on any of their spans."""

    key: str
    value: str
    distinct: int
    """Number of distinct values that the attribute has."""
    rows: I8
    """int64[n]: indices of the requests that have the value, ascending."""


class ValueCounts(NamedTuple):
    """Values of attributes that occur, with the number of spans that have each; sorted by attribute."""

    keys: tuple[str, ...]
    """Names of the attributes."""
    words: pa.Array
    """Distinct texts of the values of all attributes."""
    key: I8
    """int64[values]: index into `keys` of the value's attribute, ascending."""
    word: I8
    """int64[values]: index into `words` of the value's text."""
    times: I8
    """int64[values]: number of spans that have the value."""

    @property
    def distinct(self) -> I8:
        """int64[attributes]: number of distinct values of each attribute."""
        return np.bincount(self.key, minlength=len(self.keys))

    def among(self, only: Collection[tuple[str, str]]) -> B1:
        """bool[values]: True if (attribute, value text) is in `only`."""
        texts = self.words.take(pa.array(self.word)).to_pylist()
        pairs = zip(self.key.tolist(), texts, strict=True)
        return np.array([(self.keys[key], text) in only for key, text in pairs], np.bool_)


def attribute_values(
    tables: Sequence[pa.Table],
    ids: RequestIds,
    wants: Callable[[str], bool],
    chosen: Callable[[ValueCounts], B1],
) -> list[AttributeValue]:
    """Values of attributes, with the requests that have them.

    tables: with the columns of PARAMS_AS_CODES. wants: returns True for the name of an attribute to read.
    chosen: returns bool[values], True for values to return. A number counts as a value only if it is whole.
    O(rows of the tables + values · requests).
    """
    said = _said(pa.concat_tables(tables), ids, wants)
    if said is None:
        return []
    keys, words, n_pairs = said.keys, said.words, len(said.keys) * len(said.words)
    kinds, times = _counted(said.pairs, n_pairs)
    counts = ValueCounts(tuple(keys), words, kinds // len(words), kinds % len(words), times)
    key, distinct = counts.key, counts.distinct
    kept = chosen(counts)
    number = np.full(len(kinds), -1, dtype=np.int32)
    number[kept] = np.arange(int(kept.sum()))
    code, request = _numbered(said, kinds, number, n_pairs)
    order, first = group_stably(code, int(kept.sum()))
    request = request[order]
    texts = words.take(pa.array(kinds[kept] % len(words))).to_pylist()
    found = []
    flags = np.zeros(2 * len(ids.words), dtype=np.bool_)
    for at, (begin, end) in enumerate(pairwise(first.tolist())):
        mine = request[begin:end]
        flags[mine] = True
        rows = np.flatnonzero(flags[ids.code])
        flags[mine] = False
        which = int(key[kept][at])
        found.append(AttributeValue(keys[which], str(texts[at]), int(distinct[which]), rows))
    return found


class _Said(NamedTuple):
    """Rows of attribute tables that have a known request and a value, in parts that fit into a core's
    cache."""

    keys: list[str]
    """Names of attributes."""
    words: pa.Array
    """Texts of values."""
    requests: list[I8]
    """For each part int64[rows]: code of the row's request, see `RequestIds.code`."""
    pairs: list[I8]
    """For each part int64[rows]: index into `keys` * len(words) + index into `words`."""


def _said(table: pa.Table, ids: RequestIds, wants: Callable[[str], bool]) -> _Said | None:
    """Select the rows that have a wanted attribute, a known request and a value; None for an empty table."""
    coded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in table.columns]
    parts = pa.table(coded, names=table.column_names).unify_dictionaries().to_batches()
    if not table.num_rows:
        return None
    of_id, of_kind = ids.codes_of(*(parts[0][name].dictionary for name in ("request_id", "kind")))
    keys = [str(word) for word in parts[0]["key"].dictionary.to_pylist()]
    wanted = np.array([wants(key) for key in keys], dtype=np.bool_)
    words, word_parts = _with_numbers(parts)
    requests, pairs = [], []
    for part, word in zip(parts, word_parts, strict=True):
        request, kind, key = (part[name].indices.to_numpy() for name in ("request_id", "kind", "key"))
        code = of_id[request] + of_kind[kind]
        there = np.flatnonzero((code >= 0) & (word >= 0) & wanted[key])
        requests.append(code[there])
        pairs.append(key[there].astype(np.int64) * len(words) + word[there])
    return _Said(keys, words, requests, pairs)


def _with_numbers(parts: Sequence[pa.RecordBatch]) -> tuple[pa.Array, list[I8]]:
    """(texts of values: the words of column `text`, then the whole numbers of column `num` as texts; for each
    part int64[rows] index into the texts, -1 for no value)."""
    text_words = parts[0]["text"].dictionary
    codes, found = [], []
    for part in parts:
        code = part["text"].indices.fill_null(-1).to_numpy().astype(np.int64)
        number = part["num"].to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(code < 0)
        rows = rows[np.isfinite(number[rows]) & (number[rows] == np.rint(number[rows]))]
        codes.append(code)
        found.append((rows, number[rows]))
    numbers = np.unique(np.concatenate([np.unique(values) for _, values in found]))
    for code, (rows, values) in zip(codes, found, strict=True):
        code[rows] = len(text_words) + np.searchsorted(numbers, values)
    said = pa.array([f"{value:.0f}" for value in numbers.tolist()], pa.string())
    return pa.concat_arrays([text_words.cast(pa.string()), said]), codes


def _counted(pairs: Sequence[I8], n_pairs: int) -> tuple[I8, I8]:
    """(int64[n] distinct pairs that occur, ascending; int64[n] number of rows with each pair)."""
    if n_pairs > _MOST_CELLS:
        return np.unique(np.concatenate(pairs), return_counts=True)
    times = np.zeros(n_pairs, dtype=np.int64)
    for part in pairs:
        np.add.at(times, part, 1)
    kinds = np.flatnonzero(times)
    return kinds, times[kinds]


def _numbered(said: _Said, kinds: I8, number: I4, n_pairs: int) -> tuple[I4, I8]:
    """(int32[rows] number of the row's pair, int64[rows] code of the row's request), of rows whose pair has a
    number.

    kinds: int64[pairs], distinct pairs, ascending. number: int32[pairs], number of each pair, -1 for none."""
    of_pair = None
    if n_pairs <= _MOST_CELLS:
        of_pair = np.full(n_pairs, -1, dtype=np.int32)
        of_pair[kinds] = number
    codes, requests = [], []
    for request, pair in zip(said.requests, said.pairs, strict=True):
        code = number[np.searchsorted(kinds, pair)] if of_pair is None else of_pair[pair]
        inside = np.flatnonzero(code >= 0)
        codes.append(code[inside])
        requests.append(request[inside])
    return np.concatenate(codes), np.concatenate(requests)
