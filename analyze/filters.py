"""Which flows of a period its filter keeps (`schemas.periods.Filter`), by the narrow columns that it asks of.

Keys `root`, `kind`, `status`, `inner_status` and `duration` are columns of a flow; `host` and `component`
hold for a flow if they hold for any of its nodes, `error` if it holds for any node that failed; every other
key is a parameter of any node. `!=` holds if no node has an equal value, so a flow without the parameter
passes. `<` and its like compare numbers with numeric parameters and text with text.

Where a filter keeps nothing as a key, or a name, of it does not exist, `unknown_name` tells those there are.
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.scope import LakePeriod
from analyze.stored_rows import read_stored
from schemas.arrays import B1, I8
from schemas.periods import DURATION_KEY, FLOW_KEYS, Condition, Operator
from stitch.columnar.runs import whole
from stitch.lake.windowing import flow_names

_LISTS: Final = ("host", "error_class")
_EQUALITIES: Final = (Operator.EQ, Operator.NE, Operator.IN)
_TESTS: Final = {
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
    Operator.LIKE: lambda texts, pattern: pc.match_like(texts, pattern.as_py().replace("\\", "\\\\")),
}
_NAMED: Final = 6
"""Keys, or names, that the error names."""
_MOST_NAMES: Final = 10_000
"""Names among which the nearest are looked for."""


class FlowFilter:
    """The conditions of a period's filter. What they ask of structures and parameters is read at once."""

    def __init__(self, found: LakePeriod) -> None:
        """Raises LakeError."""
        self._found = found
        self._conditions = () if found.period.where is None else found.period.where.conditions
        self._named = [self._named_elsewhere(condition) for condition in self._conditions]

    def _named_elsewhere(self, condition: Condition) -> pa.ChunkedArray | None:
        """Names of the flows, or categories, that hold a condition; None where files of flows tell."""
        files = _files(self._found, condition)
        if files is self._found.flows:
            return None
        entries = [_entries(self._found, path, condition) for path in files]
        names = [_names(one.rows).filter(pa.array(one.holding(condition))) for one in entries]
        return pa.chunked_array(names, pa.string())

    def rows(self, path: Path) -> B1:
        """[rows of a file of flows] whether each is kept. Raises LakeError."""
        kept: B1 = np.array(True)
        for condition, named in zip(self._conditions, self._named, strict=True):
            if named is None:
                holds = _entries(self._found, path, condition).holding(condition)
            else:
                columns = ["request_id", "kind"] if condition.is_parameter else ["category"]
                rows = read_stored(self._found, path, columns)
                holds = _truth(pc.is_in(_names(rows), value_set=named))
            kept = kept & (holds != (condition.operator is Operator.NE))
        return kept


class _Entries(NamedTuple):
    """What the rows of a file have under a key."""

    rows: pa.Table
    values: tuple[pa.Array | pa.ChunkedArray, ...]
    """[entries] texts; numbers."""
    row: I8
    """[entries] whose they are."""

    def holding(self, condition: Condition) -> B1:
        """[rows] for which it holds of an entry; of `!=` those with an equal one."""
        holds = np.logical_or.reduce([_passing(values, condition) for values in self.values])
        return np.bincount(self.row[holds], minlength=self.rows.num_rows) > 0


def _files(found: LakePeriod, condition: Condition) -> tuple[Path, ...]:
    if condition.is_parameter:
        return found.params
    return found.structures if condition.key == "component" else found.flows


def _entries(found: LakePeriod, path: Path, condition: Condition) -> _Entries:
    """Read what a condition asks of one of its files."""
    if condition.is_parameter:
        columns = ["request_id", "kind", "text", "num"]
        rows = read_stored(found, path, columns, where=pc.field("key") == condition.key)
        return _Entries(rows, (rows["text"], rows["num"]), np.arange(rows.num_rows))
    if condition.key == "component":
        rows = read_stored(found, path, ["category", "nodes"])
        nodes = whole(rows["nodes"])
        return _Entries(rows, (nodes.flatten().field("component"),), _row_of(nodes))
    column = {"error": "error_class", DURATION_KEY: "response_ns"}.get(condition.key, condition.key)
    words = f"{column}.list.element" if column in _LISTS else column
    rows = read_stored(found, path, [column], as_codes=[words] * (condition.key != DURATION_KEY))
    values = rows[column]
    if column in _LISTS:
        return _Entries(rows, (whole(values).flatten(),), _row_of(whole(values)))
    # Null where no inner node failed.
    values = whole(values).cast(pa.string()).fill_null("ok") if column == "inner_status" else values
    return _Entries(rows, (values,), np.arange(rows.num_rows))


def _row_of(lists: pa.ListArray) -> I8:
    row: I8 = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    return row


def _names(rows: pa.Table) -> pa.Array:
    """[rows] names of their flows, or of their categories."""
    if "kind" in rows.column_names:
        return flow_names(rows)
    return whole(rows["category"].cast(pa.string()))


def _passing(values: pa.Array | pa.ChunkedArray, condition: Condition) -> B1:
    """[values] which texts, or numbers, pass the test of a condition; null passes none."""
    if isinstance(values, pa.ChunkedArray):
        values = whole(values.unify_dictionaries())
    if pa.types.is_dictionary(values.type):
        of_words = np.append(_passing(values.dictionary, condition), False)
        passing: B1 = of_words[values.indices.fill_null(len(of_words) - 1).to_numpy()]
        return passing
    of_texts = pa.types.is_string(values.type)
    kind = pa.string() if of_texts else pa.float64()
    # What is no parameter has texts, whatever they look like; a number is equal to a text as it was written.
    is_equality = condition.operator in _EQUALITIES
    asked = [
        (value if isinstance(value, str) else repr(value)) if of_texts else value
        for value in condition.values
        if isinstance(value, str) == of_texts or (of_texts and (is_equality or not condition.is_parameter))
    ]
    values = values.cast(kind, safe=False)  # of response times 53 bits
    if is_equality:
        return _truth(pc.is_in(values, value_set=pa.array(asked, kind)))
    if not asked:
        return np.zeros(len(values), dtype=np.bool_)
    return _truth(_TESTS[condition.operator](values, pa.scalar(asked[0], kind)))


def _truth(holds: pa.Array) -> B1:
    return np.asarray(holds.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def unknown_name(found: LakePeriod) -> str:
    """Return a sentence on a parameter, or a name, that the period's filter asks for and no request of its
    windows has, or "".

    Not for `!=`, which such a request fulfils; of names those that are asked for as they are (`=`, `in`).
    """
    where = found.period.where
    for condition in () if where is None else where.conditions:
        if condition.operator is Operator.NE:
            continue
        entries = [_entries(found, path, condition) for path in _files(found, condition)]
        if condition.is_parameter and not any(one.rows.num_rows for one in entries):
            keys = Counter(
                key for path in found.params for key in read_stored(found, path, ["key"])["key"].to_pylist()
            )
            return (
                f"No request of these windows has a parameter '{condition.key}'. "
                f"{_nearest(condition.key, keys)} Other keys: {', '.join(FLOW_KEYS)}."
            )
        texts = [value for value in condition.values if isinstance(value, str)]
        has_names = condition.is_parameter or condition.key in ("root", "status", "host", "component")
        if condition.operator is Operator.LIKE or condition.operator in _TESTS or not (texts and has_names):
            continue
        names = Counter(name for one in entries for name in pc.unique(one.values[0]).to_pylist() if name)
        if names and not set(texts).intersection(names):
            return (
                f"No request of these windows has {condition.key} = '{texts[0]}'. {_nearest(texts[0], names)}"
            )
    return ""


def _nearest(name: str, names: Counter[str]) -> str:
    """What there is, that which looks most like `name` first, then what is most frequent."""
    known = sorted(names, key=lambda other: (-names[other], other))[:_MOST_NAMES]
    likeness = {other: SequenceMatcher(None, name.lower(), other.lower()).ratio() for other in known}
    nearest = sorted(known, key=lambda other: -likeness[other])[:_NAMED]
    rest = len(known) - len(nearest)
    named = f"{', '.join(nearest)}{f' and {rest} more' if rest else ''}" if nearest else "none"
    return f"There are: {named}."
