"""Fold names that contain ids, so that tables do not grow with the number of requests.

`fs -mkdir dir_17` would be a different operation for every directory, and so a different structure for every
request. If a component has more operation names than `RefineSettings.max_names`, ids in its names become `#`.
The *level* of a component is the number of kinds of ids (`PARTS`, most specific first) that are replaced; if
all kinds leave too many names, only the leading word is kept (`LEADING_WORD`), then nothing (`NOTHING`).
Names of components are folded in the same way. A component gets the lowest level that leaves few enough
names; the result does not depend on the order of names, as a higher level only merges more. Patterns have no
nested repetition, so that matching is linear in the length of a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.population import FoldedNames
from analyze.refine.stored import Operation
from schemas.arrays import I8
from schemas.errors import LakeError
from stitch.columnar.hashing import hash_rows
from stitch.columnar.runs import whole

MARK: Final = "#"


class IdKind(NamedTuple):
    """Kind of id that may occur in names."""

    what: str
    """Plural noun for display, for example `UUIDs`."""
    pattern: str
    """Regular expression that matches one id."""


PARTS: Final = (
    IdKind("quoted words", r'"[^"]*"|\'[^\']*\''),
    IdKind("UUIDs", r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
    IdKind(
        "hexadecimal ids",
        r"(?<![0-9A-Za-z])(?:0[xX])?(?=[A-Fa-f]{0,64}[0-9])[0-9A-Fa-f]{6,64}(?![0-9A-Za-z])",
    ),
    IdKind("mixed ids", r"(?<![0-9A-Za-z])(?=[A-Za-z]{0,64}[0-9])[0-9A-Za-z]{16,64}(?![0-9A-Za-z])"),
    IdKind("numbers", r"[0-9]+"),
)
"""Kinds of ids in names, in the order in which they are replaced: most specific first."""
_PATTERNS: Final = tuple(re.compile(part.pattern) for part in PARTS)
LEADING_WORD: Final = len(PARTS) + 1
"""Level at which a name folds to its leading letters and `#`."""
NOTHING: Final = LEADING_WORD + 1
"""Level at which every name folds to `#`."""
_LEADING: Final = re.compile(r"[^\W\d_]*")


_ROWS_AT_ONCE: Final = 16_384
"""Maximum number of structures whose names are held as Python objects at the same time."""
_BETWEEN: Final = "\n"
"""Text between texts that are folded together: not part of any id."""


def fold_text(text: str, level: int) -> str:
    """Replace ids in `text` by `#`. level: number of kinds of `PARTS` to replace, LEADING_WORD or NOTHING.

    Folding the result at a higher level gives the same text as folding `text` at that level."""
    if level >= NOTHING:
        return MARK
    for pattern in _PATTERNS[:level]:
        text = pattern.sub(MARK, text)
    if level == LEADING_WORD:
        found = _LEADING.match(text)
        word = found[0] if found else ""
        return text if word == text else word + MARK
    return text


def fold_texts(texts: Sequence[str], level: int) -> list[str]:
    """Fold each of `texts` as `fold_text` does; each regular expression runs once, over all texts joined."""
    if not 0 < level < NOTHING:
        return [fold_text(text, level) for text in texts]
    quoted, *patterns = _PATTERNS[:level]
    # Quotes would pair up between texts.
    texts = [quoted.sub(MARK, text) if '"' in text or "'" in text else text for text in texts]
    joined = _BETWEEN.join(texts)
    if joined.count(_BETWEEN) != len(texts) - 1:
        return [fold_text(text, level) for text in texts]
    for pattern in patterns:
        joined = pattern.sub(MARK, joined)
    folded = joined.split(_BETWEEN)
    return [fold_text(text, level) for text in folded] if level == LEADING_WORD else folded


class Folding:
    """Mapping from names to folded names (ids replaced by `#`); without `folds` it is the identity."""

    def __init__(self, folds: Iterable[FoldedNames] = ()) -> None:
        self.folds = tuple(folds)
        self._levels: dict[str | None, int] = {fold.component: fold.level for fold in self.folds}

    def __eq__(self, other: object) -> bool:
        """True if both have the same level for every component, and so fold every name in the same way."""
        return isinstance(other, Folding) and self._levels == other._levels

    __hash__ = None  # type: ignore[assignment]

    def component(self, name: str) -> str:
        """Folded name of a component."""
        return fold_text(name, self._levels.get(None, 0))

    def level(self, component: str) -> int:
        """Level of folding for the operation names of a component, given by its folded name; 0: unchanged."""
        return self._levels.get(component, 0)

    def name(self, name: Operation) -> Operation:
        """Folded name of an operation: its component, point and label are folded."""
        return self.names([name])[0]

    def names(self, names: Sequence[Operation]) -> list[Operation]:
        """Folded name of each operation."""
        return _folded_by_component(names, self._levels)


class NameFolder:
    """Collects names and finds, for each component, the lowest level of folding that leaves at most `most`
    names.

    Memory: `most` names per component, for `most` components."""

    def __init__(self, most: int, before: Iterable[FoldedNames] = ()) -> None:
        """most: maximum number of components, and of operation names per component, after folding. before:
        folds found earlier; their levels are lower bounds."""
        self._most = most
        self._levels: dict[str | None, int] = {}
        self._before: dict[str | None, FoldedNames] = {}
        self._seen: dict[str, dict[Operation, Operation]] = {}
        """Folded component -> folded operation -> first (by `_order`) of the operations that fold to it."""
        for fold in sorted(before, key=lambda fold: fold.component is not None):
            place = None if fold.component is None else self._component(fold.component)
            self._levels[place] = max(fold.level, self._levels.get(place, 0))
            self._before[place] = min(fold, self._before.get(place, fold), key=lambda folded: folded.example)

    @property
    def folds(self) -> bool:
        """True if at least one component has so many names that ids in them are replaced."""
        return bool(self._levels)

    def add(self, names: Iterable[Operation]) -> None:
        """Add names, and raise the levels where there are too many; repeated names have no effect."""
        for component, mine in _by_component(names, self._levels).items():
            # A few at a time: most are folded once, at a level that is high enough.
            for at in range(0, len(mine), self._most + 1):
                self._put(component, mine[at : at + self._most + 1])
        if len(self._seen) > self._most:
            self._levels[None] = self._levels.get(None, 0) + 1
            for other in [place for place in self._levels if place is not None]:
                level, place = self._levels.pop(other), self._component(other)
                self._levels[place] = max(level, self._levels.get(place, 0))
            seen, self._seen = self._seen, {}
            self.add(name for names in seen.values() for name in names.values())

    def folded(self, names: Sequence[Operation]) -> list[Operation]:
        """Fold each of `names` at the current levels; does not add them."""
        return _folded_by_component(names, self._levels)

    def folding(self) -> Folding:
        """Folding at the current levels, with an example for each component whose names it changes."""
        return Folding(self._fold(place) for place in sorted(self._levels, key=lambda place: place or ""))

    def _put(self, component: str, names: Sequence[Operation]) -> None:
        """Add names of a component. component: its folded name."""
        level, seen = self._levels.get(component, 0), self._seen.setdefault(component, {})
        _keep_first(seen, zip(_folded(component, names, level), names, strict=True))
        while len(seen) > self._most:
            level += 1
            # Folding what is folded gives the same as folding the name.
            again = _folded(component, [*seen], level)
            merged: dict[Operation, Operation] = {}
            _keep_first(merged, zip(again, seen.values(), strict=True))
            seen, self._levels[component] = merged, level
        self._seen[component] = seen

    def _component(self, name: str) -> str:
        return fold_text(name, self._levels.get(None, 0))

    def _fold(self, place: str | None) -> FoldedNames:
        level = self._levels[place]
        if place is None:
            names = sorted({name.component for mine in self._seen.values() for name in mine.values()})
            shown = [(name, self._component(name)) for name in names]
            left = len(self._seen)
        else:
            mine = self._seen.get(place, {})
            pairs = sorted(mine.items(), key=lambda pair: _order(pair[1]))
            shown = [(name.text, folded.text) for folded, name in pairs]
            left = len(mine)
        example = next(((name, folded) for name, folded in shown if name != folded), None)
        before = self._before.get(place)
        if example is None and before is not None:
            example = before.example
        return FoldedNames(place, level, left, example or ("", ""))


def _by_component(names: Iterable[Operation], levels: Mapping[str | None, int]) -> dict[str, list[Operation]]:
    """Mapping folded component -> its names, in their order. levels: level of each folded component; None:
    that of the names of components."""
    by_name: dict[str, list[Operation]] = {}
    for name in names:
        by_name.setdefault(name.component, []).append(name)
    found: dict[str, list[Operation]] = {}
    for component, mine in by_name.items():
        found.setdefault(fold_text(component, levels.get(None, 0)), []).extend(mine)
    return found


def _folded_by_component(names: Sequence[Operation], levels: Mapping[str | None, int]) -> list[Operation]:
    """Folded name of each operation. levels: see `_by_component`."""
    found = {
        name: folded
        for component, mine in _by_component(names, levels).items()
        for name, folded in zip(mine, _folded(component, mine, levels.get(component, 0)), strict=True)
    }
    return [found[name] for name in names]


def _folded(component: str, names: Sequence[Operation], level: int) -> list[Operation]:
    """Folded name of each operation. component: the folded component of all; level: that of its names."""
    if not level:
        return [Operation(component, name.point, name.label) for name in names]
    points = fold_texts([name.point for name in names], level)
    labels = fold_texts([name.label or "" for name in names], level)
    return [
        Operation(component, point, None if name.label is None or level >= LEADING_WORD else label)
        for name, point, label in zip(names, points, labels, strict=True)
    ]


def _keep_first(seen: dict[Operation, Operation], names: Iterable[tuple[Operation, Operation]]) -> None:
    """Keep for each folded operation the first (by `_order`) of the operations that fold to it. names:
    (folded operation, operation)."""
    for folded, name in names:
        if (first := seen.setdefault(folded, name)) is not name and _order(name) < _order(first):
            seen[folded] = name


def _order(name: Operation) -> tuple[str, str, str]:
    return name.component, name.point, name.label or ""


class DistinctNames(NamedTuple):
    """Distinct operations of the nodes of structures."""

    distinct: list[Operation]
    code: I8
    """int64[nodes]: index into `distinct` of each node's operation."""


def distinct_names(nodes: pa.StructArray) -> DistinctNames:
    """Find the distinct operations of nodes. O(nodes log nodes).

    nodes: [nodes] structs with at least the fields of `Operation`."""
    words = [nodes.field(name).dictionary_encode() for name in Operation._fields]
    code = np.zeros(len(nodes), dtype=np.int64)
    for column in words:
        code *= len(column.dictionary) + 1
        code += column.indices.fill_null(len(column.dictionary)).to_numpy()
    first, code = np.unique(code, return_index=True, return_inverse=True)[1:]
    at = pa.array(first)
    texts = [nodes.field(name).take(at).to_pylist() for name in Operation._fields]
    return DistinctNames([Operation(*name) for name in zip(*texts, strict=True)], code)


class FoldedStructures:
    """Structures of a lake, added file by file. Each file is folded at the levels of the names seen so far,
    which bounds the number of structures in memory."""

    def __init__(self, folder: NameFolder) -> None:
        self._folder = folder
        self._tables: list[pa.Table] = []
        self._keys: list[pa.Array] = []
        self._became: list[I8] = []
        """[tables], each int64[rows before folding]: row in the folded table."""
        self._added: set[str] = set()
        """Keys of the structures added so far; windows repeat structures."""

    def add(self, stored: pa.Table) -> None:
        """Add rows of STORED_STRUCTURES_SCHEMA; rows whose key was added before are ignored.

        O(nodes of new rows). Holds the names of at most `_ROWS_AT_ONCE` rows as Python objects."""
        keys = stored["category"].to_pylist()
        new = [at for at, key in enumerate(keys) if key not in self._added]
        self._added.update(keys)
        if len(new) < len(keys):
            stored = stored.take(pa.array(new, pa.int64()))
        for at in range(0, stored.num_rows, _ROWS_AT_ONCE):
            self._add(stored.slice(at, _ROWS_AT_ONCE))

    def _add(self, stored: pa.Table) -> None:
        names = distinct_names(whole(stored["nodes"]).flatten())
        self._folder.add(names.distinct)
        keys = whole(stored["category"])
        table, became = stored, np.arange(len(keys))
        if self._folder.folds:
            table, became = fold_structures(stored, names, self._folder.folded(names.distinct))
        self._tables.append(table)
        self._keys.append(keys)
        self._became.append(became)

    def settled(self) -> tuple[list[pa.Table], StoredKeys | None]:
        """(tables of all structures, folded at the final levels; mapping of old keys to new keys, or None if
        nothing was folded). `add` must not be called afterwards."""
        folding = self._folder.folding()
        tables, self._tables = self._tables, []
        if not folding.folds:
            return tables, None
        first = np.cumsum([0, *(table.num_rows for table in tables)])
        joined = pa.concat_tables(tables)
        names = distinct_names(whole(joined["nodes"]).flatten())
        table, became = fold_structures(joined, names, self._folder.folded(names.distinct))
        rows = [became[began + here] for began, here in zip(first, self._became, strict=False)]
        keys, self._keys, self._became = self._keys, [], []
        return [table], StoredKeys(
            folding, pa.chunked_array(keys), np.concatenate(rows), whole(table["category"])
        )


class StoredKeys(NamedTuple):
    """Mapping from keys of structures before folding to keys after folding."""

    folding: Folding
    key: pa.ChunkedArray
    """Keys before folding, unique."""
    became: I8
    """int64[keys]: index into `left` of the key after folding."""
    left: pa.StringArray
    """Keys after folding: for each folded structure the smallest key of the structures merged into it."""

    def recoded(self, category: pa.ChunkedArray) -> pa.DictionaryArray:
        """Column of keys after folding. category: dictionary-encoded column of keys before folding.

        Raises LakeError for a key without a structure."""
        one = whole(category.unify_dictionaries())
        at = pc.index_in(one.dictionary, value_set=self.key)
        if at.null_count:
            raise LakeError("Flows of a category without a structure.", remedy="Run flowdiff fsck.")
        codes = self.became.astype(np.int32)[at.to_numpy()][one.indices.to_numpy()]
        return pa.DictionaryArray.from_arrays(pa.array(codes), self.left)


def fold_structures(
    stored: pa.Table, names: DistinctNames, folded: Sequence[Operation]
) -> tuple[pa.Table, I8]:
    """(rows of `stored` with folded names, equal structures merged; int64[rows of `stored`] row in them).

    names: of the nodes of `stored`. folded: [names.distinct] folded name of each.

    Structures with equal nodes in equal order are merged under the smallest of their keys. Structures that
    differ only in the order of nodes that was sorted by the old names are merged later, with the graphs.
    """
    lists = whole(stored["nodes"])
    nodes = lists.flatten()
    code = pa.array(names.code)
    columns = [nodes.field(number) for number in range(nodes.type.num_fields)]
    for place, words in enumerate(zip(*folded, strict=True) if folded else ()):
        columns[nodes.type.get_field_index(Operation._fields[place])] = pa.array(words, pa.string()).take(
            code
        )
    bounds = lists.offsets.to_numpy()
    again = pa.ListArray.from_arrays(
        pa.array(bounds - bounds[0]), pa.StructArray.from_arrays(columns, fields=list(nodes.type))
    )
    table = stored.set_column(stored.column_names.index("nodes"), stored.schema.field("nodes"), again)
    order = pc.sort_indices(whole(stored["category"])).to_numpy()
    content = hash_rows(table.drop_columns(["category"]))[order]
    first, became = np.unique(content, return_index=True, return_inverse=True)[1:]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = became
    return table.take(pa.array(order[first])), back
