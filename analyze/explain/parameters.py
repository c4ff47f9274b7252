"""Read parameters of requests as columns, on demand, aggregated by request and operation.

Parameters are stored by node of the recorded structure. A refined graph may number its nodes differently, and
the compared classes contain many structures. So a column belongs to an *operation*, `component/point`, at any
node. Operations that requests of one of the two classes do not run cannot be compared; `table` drops them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analyze.explain.chosen_requests import ChosenRequests
from analyze.explain.columns import ANYWHERE, AttributeColumn, shown, text_column
from analyze.explain.settings import IDENTIFIER_NAMES
from analyze.numbering import Numbering, coded
from analyze.population import Category, Population, Source
from schemas.arrays import B1, F8, I4, I8
from schemas.lake import SPANS
from stitch.columnar.runs import inverse

_NUMBER = r"^[+-]?(\d{1,300}(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$"
"""Regular expression for texts that are read as numbers."""


@dataclass(frozen=True, slots=True)
class RequestStructures:
    """Stored structures of the chosen requests, with the nodes of all structures in one array."""

    of_request: I4
    """int32[requests]: index of each request's structure."""
    first: I8
    """int64[structures + 1]: index of each structure's first node in `operation`; the last is the number of
    nodes."""
    operation: I4
    """int32[nodes of all structures]: index into `operations`; -1 for a node of another request, such as the
    work of a message (`Source.positions`)."""
    operations: tuple[str, ...]
    passes: B1
    """bool[structures, operations]: True if the structure contains the operation."""

    def of(self, places: I8) -> RequestStructures:
        """Structures of some requests only, in the order of `places`, int64[n]."""
        return replace(self, of_request=self.of_request[places])


@dataclass(frozen=True, slots=True)
class _Values:
    """Parameter values of the chosen requests, sorted by (operation, key, request, node)."""

    request: I8
    """int64[values]: index of the request among the chosen requests."""
    operation: I4
    """int32[values]: index into `RequestStructures.operations`."""
    key: I4
    """int32[values]: index into `keys`."""
    number: F8
    """float64[values]: the value as a number; NaN for a text, or if the number is not finite."""
    text: I4
    """int32[values]: index into `words`; -1 if the value is not a text."""
    keys: tuple[str, ...]
    words: pa.StringArray
    word_number: F8
    """float64[words + 1]: each word read as a number, NaN if it is not a number; the last element is NaN, for
    `text` = -1."""

    def renumbered(self, number: I8) -> _Values | None:
        """Values with requests renumbered; None if no value remains. number: int64[requests], new number of
        each request; values of requests with a negative number are dropped."""
        request = number[self.request]
        kept = np.flatnonzero(request >= 0)
        if not len(kept):
            return None
        # Stable, so that positions stay in order.
        kept = kept[np.lexsort((request[kept], self.key[kept], self.operation[kept]))]
        return replace(
            self,
            request=request[kept],
            **{name: getattr(self, name)[kept] for name in ("operation", "key", "number", "text")},
        )


@dataclass(frozen=True, slots=True)
class ReadParameters:
    """Parameters (recorded attribute values) of the chosen requests, encoded as integers; read once and used
    in several comparisons of two sets of requests."""

    structures: RequestStructures
    values: _Values | None
    """Values of the parameters; None if the requests have none."""

    @classmethod
    def read(
        cls, population: Population, chosen: ChosenRequests, structures: RequestStructures
    ) -> ReadParameters:
        """Read all parameters of the chosen requests. Raises LakeError if they cannot be read."""
        return cls(structures, _read(population, chosen, structures))

    def of(self, places: I8) -> ReadParameters:
        """Parameters of some requests only, renumbered from 0 in the order of `places`. O(values).

        places: int64[n], distinct indices of requests.
        """
        structures = self.structures.of(places)
        if self.values is None:
            return ReadParameters(structures, None)
        number = np.full(len(self.structures.of_request), -1, np.int64)
        number[places] = np.arange(len(places))
        return ReadParameters(structures, self.values.renumbered(number))


def parameter_columns(read: ReadParameters) -> Iterator[AttributeColumn]:
    """Yield columns of the requests' parameters.

    A key with the same value at all operations of a request gives one column for the whole request, for
    example a tenant that several operations record. Any other key gives columns per (operation, key).

    A parameter that requests have at most once gives one column; a parameter with several values in a request
    gives a column for each aggregate (first, last, min, max, mean, mode, distinct), but none for the number
    of values, which is a property of the structure. Numbers recorded as text count as numbers, unless the key
    is the name of an identifier (version 1.10 is not 1.1) or has values that are words; then all values count
    as words. Infinite numbers and NaN are missing.
    """
    structures, values = read.structures, read.values
    if values is None:
        return
    shared = _shared_keys(values)
    if shared.any():
        of_requests = _first_of_requests(values, shared)
        begin, size = _runs(of_requests.key)
        for first, past in zip(begin.tolist(), (begin + size).tolist(), strict=True):
            number = int(of_requests.key[first])
            operations = np.unique(values.operation[values.key == number])
            there: B1 = np.asarray(structures.passes[:, operations].any(axis=1))
            passes = there[structures.of_request]
            for column in _columns(
                of_requests, slice(first, past), ANYWHERE, values.keys[number], len(passes)
            ):
                yield replace(column, passes=passes)
    begin, size = _runs(values.operation, values.key)
    for first, past in zip(begin.tolist(), (begin + size).tolist(), strict=True):
        if shared[values.key[first]]:
            continue
        operation, key = int(values.operation[first]), values.keys[int(values.key[first])]
        passes = structures.passes[structures.of_request, operation]
        for column in _columns(
            values, slice(first, past), structures.operations[operation], key, len(passes)
        ):
            yield replace(column, passes=passes)


def _shared_keys(values: _Values) -> B1:
    """bool[keys]: True for a key that several operations record with the same value within each request."""
    at = np.lexsort((values.request, values.key))
    key, request, text = values.key[at], values.request[at], values.text[at]
    number = np.nan_to_num(values.number[at], nan=-0.5)  # equal to itself
    again = (key[1:] == key[:-1]) & (request[1:] == request[:-1])
    unlike = again & ((text[1:] != text[:-1]) | (number[1:] != number[:-1]))
    shared = np.zeros(len(values.keys), dtype=np.bool_)
    pairs = np.unique(values.key.astype(np.int64) * (int(values.operation.max()) + 1) + values.operation)
    shared[np.flatnonzero(np.bincount(pairs // (int(values.operation.max()) + 1)) > 1)] = True
    shared[key[1:][unlike]] = False
    return shared


def _first_of_requests(values: _Values, shared: B1) -> _Values:
    """First value of each (key, request), sorted by both, for the keys selected by `shared`, bool[keys]."""
    mine = np.flatnonzero(shared[values.key])
    at = mine[np.lexsort((values.request[mine], values.key[mine]))]
    begin, _ = _runs(values.key[at], values.request[at])
    at = at[begin]
    return replace(
        values,
        **{name: getattr(values, name)[at] for name in ("request", "operation", "key", "number", "text")},
    )


class ParameterWord(NamedTuple):
    """Value of a text parameter at one call of a request."""

    where: str
    """Operation that recorded the parameter, `component/point`."""
    key: str
    request: int
    """Index of the request among the chosen requests."""
    text: str


def parameter_words(
    population: Population, chosen: ChosenRequests, keys: Sequence[str]
) -> Iterator[ParameterWord]:
    """Yield every text value that the chosen requests have for one of `keys`, one per call."""
    structures = request_structures(population, chosen)
    values = _read(population, chosen, structures, keys)
    if values is None:
        return
    words = values.words.to_pylist()
    written = np.flatnonzero(values.text >= 0)
    for operation, key, request, text in zip(
        *(column[written].tolist() for column in (values.operation, values.key, values.request, values.text)),
        strict=True,
    ):
        yield ParameterWord(structures.operations[operation], values.keys[key], request, words[text])


@dataclass(frozen=True, slots=True)
class Readings:
    """Numeric parameter values of requests as recorded, sorted by (field, request, node).

    A field is an (operation, name of a parameter)."""

    fields: tuple[tuple[str, str], ...]
    """(`component/point` of the operation, name of the parameter) of each field."""
    field: I8
    """int64[readings]: index into `fields`."""
    request: I8
    """int64[readings]: index of the request among the chosen requests."""
    progress: F8
    """float64[readings]: rank of the reading among all readings of the same field in the request, as a share
    in (0, 1]; used instead of a time, which parameters do not have."""
    number: F8
    """float64[readings]: value of the parameter."""


def parameter_readings(population: Population, chosen: ChosenRequests) -> Readings:
    """Read every finite number among the chosen requests' parameters, including numbers recorded as text."""
    structures = request_structures(population, chosen)
    values = _read(population, chosen, structures)
    if values is None:
        none = np.zeros(0, np.int64)
        return Readings((), none, none, np.zeros(0), np.zeros(0))
    number = np.where(np.isnan(values.number), values.word_number[values.text], values.number)
    kept = np.flatnonzero(~np.isnan(number))
    request = values.request[kept]
    found = values.operation[kept].astype(np.int64) * len(values.keys) + values.key[kept]
    numbered, field = np.unique(found, return_inverse=True)
    first, size = _runs(field, request)
    place = np.arange(len(field)) - np.repeat(first, size)
    n_keys = len(values.keys)
    return Readings(
        tuple((structures.operations[c // n_keys], values.keys[c % n_keys]) for c in numbered.tolist()),
        field.astype(np.int64),
        request,
        (place + 1) / np.repeat(size, size),
        number[kept],
    )


def _runs(*keys: npt.NDArray[np.number]) -> tuple[I8, I8]:
    """Runs of adjacent rows with equal keys: (int64[runs] index of the first row, int64[runs] number of
    rows)."""
    other = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    begin = np.flatnonzero(np.r_[True, other][: len(keys[0])])
    return begin, np.diff(begin, append=len(keys[0]))


def _columns(
    values: _Values, span: slice, where: str, key: str, n_requests: int
) -> Iterator[AttributeColumn]:
    """Yield the columns of one parameter at one operation. span: range of the parameter's values in `values`,
    sorted by (request, node).

    where, key: as in `AttributeColumn`.
    """
    text = values.text[span]
    number = np.where(np.isnan(values.number[span]), values.word_number[text], values.number[span])
    mixed = ((text >= 0) & np.isnan(number)).any()
    words: tuple[str, ...] | None = None
    if mixed or ((text >= 0).any() and re.search(IDENTIFIER_NAMES, key, re.IGNORECASE)):
        codes, words = _as_words(values.number[span], text, values.words)
        number = np.where(codes >= 0, codes, np.nan)
    there = ~np.isnan(number)
    request, value = values.request[span][there], number[there]
    if not len(request):
        return
    begin, _ = _runs(request)
    for aggregate, of_request in _aggregates(request, value, words=words is not None).items():
        full = np.full(n_requests, np.nan)
        full[request[begin]] = of_request
        if words is None or aggregate == "distinct":
            yield AttributeColumn(where, key, full, aggregate=aggregate)
        else:
            yield text_column(where, key, np.nan_to_num(full, nan=-1).astype(np.int32), words, aggregate)


def _aggregates(request: I8, value: F8, *, words: bool) -> dict[str, F8]:
    """Name of an aggregate -> float64[requests with values], aggregate over the values of each request.

    request, value: [values], sorted by (request, node); words: True if the values are codes of words.
    """
    begin, size = _runs(request)
    if size.max() == 1:
        return {"": value}
    last = begin + size - 1
    order = np.lexsort((value, request))
    ranked = value[order]
    start, times = _runs(ranked, request)
    distinct = np.bincount(np.searchsorted(begin, start, side="right") - 1).astype(np.float64)
    found = {"first": value[begin], "last": value[last]}
    if words:
        # The most frequent word last, of equals the first one.
        by_times = np.lexsort((-ranked[start], times, request[start]))
        found["mode"] = ranked[start][by_times[np.cumsum(distinct).astype(np.int64) - 1]]
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.add.reduceat(value / np.repeat(size, size), begin)
        found |= {"min": ranked[begin], "max": ranked[last], "mean": mean}
    return found | {"distinct": distinct}


def _as_words(number: F8, text: I4, words: pa.StringArray) -> tuple[I4, tuple[str, ...]]:
    """Code a parameter that has numbers and texts as words: (int32[values] code, -1 for neither; words by
    code).

    number, text: [values], as in `_Values`.
    """
    used = np.unique(text[text >= 0])
    named = [str(word) for word in words.take(pa.array(used)).to_pylist()]
    numeric = ~np.isnan(number) & (text < 0)
    numbers = np.unique(number[numeric])
    # Two long words may be shown alike; each stays a level of its own.
    said = named + [f"{value:g}" for value in numbers]
    codes = np.full(len(text), -1, np.int32)
    codes[text >= 0] = np.searchsorted(used, text[text >= 0])
    codes[numeric] = len(named) + np.searchsorted(numbers, number[numeric])
    return codes, tuple(shown(word) for word in said)


def request_structures(population: Population, chosen: ChosenRequests) -> RequestStructures:
    """Find the operations of the nodes of every stored structure that a chosen request has."""
    of_request = np.zeros(len(chosen), np.int32)
    sources = Numbering[Source]()
    graphs: list[Category] = []
    for index, mine in chosen.by_category():
        category = population.categories[index]
        there = category.sources or (Source(category.stored[0]),)
        source = (
            np.zeros(len(mine), np.int32) if category.source is None else category.source[chosen.row[mine]]
        )
        for place in np.unique(source):
            number = sources[there[int(place)]]
            if number == len(graphs):
                graphs.append(category)
            of_request[mine[source == place]] = number
    known = population.stored_operations(tuple({one.key: None for one in sources}))
    nodes = [
        known[one.key]
        if one.key in known
        else [f"{node.component}/{node.point}" for node in graph.graph.nodes]
        for one, graph in zip(sources, graphs, strict=True)
    ]
    operations = tuple(sorted({operation for names in nodes for operation in names}))
    number_of = {operation: number for number, operation in enumerate(operations)}
    first = np.cumsum([0, *(len(names) for names in nodes)]).astype(np.int64)
    flat = np.fromiter((number_of[op] for names in nodes for op in names), np.int32, int(first[-1]))
    for start, one in zip(first[:-1].tolist(), sources, strict=True):
        if one.positions is not None and one.key in known:
            flat[start : start + len(known[one.key])][~_holds(one.positions, len(known[one.key]))] = -1
    passes = np.zeros((len(nodes), len(operations)), dtype=np.bool_)
    structure = np.repeat(np.arange(len(nodes)), np.diff(first))
    passes[structure[flat >= 0], flat[flat >= 0]] = True
    return RequestStructures(of_request, first, flat, operations, passes)


def _holds(positions: Sequence[int], n: int) -> B1:
    """bool[n]: True at `positions`; positions from n on are ignored."""
    there = np.zeros(n, dtype=np.bool_)
    there[[at for at in positions if at < n]] = True
    return there


def _read(
    population: Population,
    chosen: ChosenRequests,
    structures: RequestStructures,
    keys: Sequence[str] | None = None,
) -> _Values | None:
    """Read the parameter values of the chosen requests, sorted by (operation, key, request, node); None if
    there are none."""
    ids, kind = _ids(population, chosen)
    parts: list[pa.Table] = []
    rows: list[I8] = []
    for sample in np.unique(chosen.sample):
        mine = np.flatnonzero(chosen.sample == sample)
        wanted = ids.take(pa.array(mine))
        table = population.params(int(sample), keys=keys, requests=wanted)
        if table.num_rows == 0:
            continue
        row, place = rows_of(table["request_id"], wanted)
        request, position = mine[place], table["position"].to_numpy()[row]
        same = kind[request] == pc.equal(table["kind"], SPANS).to_numpy()[row]
        size = np.diff(structures.first)[structures.of_request[request]]
        there = same & (position >= 0) & (position < size)
        node = structures.first[structures.of_request[request]] + np.where(there, position, 0)
        keep = np.flatnonzero(there & (structures.operation[node] >= 0))
        parts.append(table.take(pa.array(row[keep])))
        rows.append(request[keep])
    if not parts or sum(len(part) for part in rows) == 0:
        return None
    table = pa.concat_tables(parts)
    request = np.concatenate(rows)
    position = table["position"].to_numpy().astype(np.int64)
    operation = structures.operation[structures.first[structures.of_request[request]] + position]
    key, key_words = coded(table["key"])
    text, words = coded(table["text"])
    number = table["num"].to_numpy().astype(np.float64)
    number = np.where(np.isfinite(number), number, np.nan)
    number[text >= 0] = np.nan
    order = np.lexsort((position, request, key, operation))
    return _Values(
        request[order],
        operation[order],
        key[order],
        number[order],
        text[order],
        tuple(str(name) for name in key_words.to_pylist()),
        words,
        _numbers(words),
    )


def rows_of(ids: pa.ChunkedArray, wanted: pa.StringArray) -> tuple[I8, I8]:
    """Join ids: (int64[pairs] index in `ids`, int64[pairs] index in `wanted`) of all pairs of equal ids.

    An id may occur several times in `wanted`, as a request and the requests of its messages have one id."""
    words = wanted.unique()
    code = pc.index_in(wanted, value_set=words).to_numpy()
    order = np.argsort(code, kind="stable")
    first = np.searchsorted(code[order], np.arange(len(words) + 1))
    of_row = pc.fill_null(pc.index_in(ids, value_set=words), -1).to_numpy().astype(np.int64)
    rows = np.flatnonzero(of_row >= 0)
    begin = first[of_row[rows]]
    n = first[of_row[rows] + 1] - begin
    nth = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    return np.repeat(rows, n), order[np.repeat(begin, n) + nth].astype(np.int64)


def _ids(population: Population, chosen: ChosenRequests) -> tuple[pa.StringArray, B1]:
    """Ids of the chosen requests, and bool[requests]: True if the request was made of spans (not of
    records)."""
    spans = np.zeros(len(chosen), dtype=np.bool_)
    order, parts = [], []
    for index, mine in chosen.by_category():
        category = population.categories[index]
        order.append(mine)
        parts.append(category.request_id.take(pa.array(chosen.row[mine])))
        spans[mine] = category.graph.kind == SPANS
    return pa.concat_arrays(parts).take(pa.array(inverse(np.concatenate(order)))), spans


def _numbers(words: pa.StringArray) -> F8:
    """float64[words + 1]: each word read as a number; NaN for words that are not numbers, for numbers beyond
    float64, and as the last element."""
    trimmed = pc.utf8_trim_whitespace(words)
    looks = pc.match_substring_regex(trimmed, _NUMBER)
    number = np.full(len(words) + 1, np.nan)
    mask = looks.to_numpy(zero_copy_only=False).astype(np.bool_)
    if mask.any():
        number[:-1][mask] = np.array([float(word) for word in trimmed.filter(looks).to_pylist()])
    number[~np.isfinite(number)] = np.nan
    return number
