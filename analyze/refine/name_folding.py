"""Fold names that contain ids, so that tables grow with names, not with requests.

`fs -mkdir dir_17` is another operation for every directory, another structure for every request. If the
operations of one component have more names than `RefineSettings.max_names`, differing parts of names become
`#`, from the most specific pattern to the least; if that leaves too many, all but the leading word; then all.
The same for names of components. A component's level is the least one that leaves few enough names,
independent of their order: coarser levels only merge. Patterns have no nested repetition: linear in the
length of a name.
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
    """Kind of id within names, with its pattern."""

    what: str
    pattern: str


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
"""Kinds of ids in names, most specific first: text matched by an earlier kind is not split by a later one."""
_PATTERNS: Final = tuple(re.compile(part.pattern) for part in PARTS)
LEADING_WORD: Final = len(PARTS) + 1
"""Level that keeps only the leading letters of a name."""
NOTHING: Final = LEADING_WORD + 1
"""Level that maps all names to one."""
_LEADING: Final = re.compile(r"[^\W\d_]*")


_ROWS_AT_ONCE: Final = 16_384
"""Maximum number of structures whose names are Python objects at once."""
_MOST_KNOWN: Final = 1 << 16
"""Maximum number of names whose folded names are remembered: about 20 MB."""


def fold_text(text: str, level: int) -> str:
    """Fold text at a level; 0: unchanged. Folding again at another level gives that of the coarser one."""
    if level >= NOTHING:
        return MARK
    for pattern in _PATTERNS[:level]:
        text = pattern.sub(MARK, text)
    if level == LEADING_WORD:
        found = _LEADING.match(text)
        word = found[0] if found else ""
        return text if word == text else word + MARK
    return text


class Folding:
    """Map from names to folded names; empty: the identity."""

    def __init__(self, folds: Iterable[FoldedNames] = ()) -> None:
        self.folds = tuple(folds)
        self._levels = {fold.component: fold.level for fold in self.folds}

    def __eq__(self, other: object) -> bool:
        """True if both fold all names alike."""
        return isinstance(other, Folding) and self._levels == other._levels

    __hash__ = None  # type: ignore[assignment]

    def component(self, name: str) -> str:
        """Fold a component's name."""
        return fold_text(name, self._levels.get(None, 0))

    def level(self, component: str) -> int:
        """Level for the operations of a component; component: its folded name."""
        return self._levels.get(component, 0)

    def name(self, name: Operation) -> Operation:
        """Fold a node's name."""
        return _folded(name, self._levels)


class NameFolder:
    """Collects names and finds the folding. Memory: `most` names a component, of `most` components."""

    def __init__(self, most: int, before: Iterable[FoldedNames] = ()) -> None:
        """before: known folds, which the result includes."""
        self._most = most
        self._levels: dict[str | None, int] = {}
        self._before: dict[str | None, FoldedNames] = {}
        self._seen: dict[str, dict[Operation, Operation]] = {}
        """Folded component -> folded name -> least original name."""
        self._known: dict[str, dict[Operation, Operation]] = {}
        """Folded component -> name -> folded name at the levels so far, of names that were added."""
        self._n_known = 0
        for fold in sorted(before, key=lambda fold: fold.component is not None):
            place = None if fold.component is None else self._component(fold.component)
            self._levels[place] = max(fold.level, self._levels.get(place, 0))
            self._before[place] = min(fold, self._before.get(place, fold), key=lambda folded: folded.example)

    @property
    def folds(self) -> bool:
        """True if the names so far make some component's names fold."""
        return bool(self._levels)

    def add(self, names: Iterable[Operation]) -> None:
        """Add names; repetitions have no effect."""
        for name in names:
            self._put(name)

    def folded(self, names: Iterable[Operation]) -> list[Operation]:
        """[names] names folded at the levels of the names so far."""
        return [self._folded(name) for name in names]

    def folding(self) -> Folding:
        """Folding of the names so far."""
        return Folding(self._fold(place) for place in sorted(self._levels, key=lambda place: place or ""))

    def _put(self, name: Operation) -> None:
        if name in self._known.get(component := self._component(name.component), ()):
            return
        folded = self._folded(name)
        mine = self._seen.setdefault(component, {})
        mine[folded] = min(name, mine.get(folded, name), key=_order)
        if len(mine) > self._most:
            self._levels[component] = self._levels.get(component, 0) + 1
            self._known.pop(component, None)
            self.add(self._seen.pop(component).values())
        elif len(self._seen) > self._most:
            self._levels[None] = self._levels.get(None, 0) + 1
            self._known.clear()
            for other in [place for place in self._levels if place is not None]:
                level, place = self._levels.pop(other), self._component(other)
                self._levels[place] = max(level, self._levels.get(place, 0))
            seen, self._seen = self._seen, {}
            for names in seen.values():
                self.add(names.values())

    def _folded(self, name: Operation) -> Operation:
        known = self._known.setdefault(self._component(name.component), {})
        if name not in known:
            if self._n_known == _MOST_KNOWN:
                self._known.clear()
                self._n_known, known = 0, {}
            self._n_known += 1
            known[name] = _folded(name, self._levels)
        return known[name]

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


def _folded(name: Operation, levels: Mapping[str | None, int]) -> Operation:
    component = fold_text(name.component, levels.get(None, 0))
    level = levels.get(component, 0)
    if not level:
        return Operation(component, name.point, name.label)
    label = None if name.label is None or level >= LEADING_WORD else fold_text(name.label, level)
    return Operation(component, fold_text(name.point, level), label)


def _order(name: Operation) -> tuple[str, str, str]:
    return name.component, name.point, name.label or ""


class DistinctNames(NamedTuple):
    """Distinct names of the nodes of structures."""

    distinct: list[Operation]
    code: I8
    """[nodes] index into `distinct`."""


def distinct_names(nodes: pa.StructArray) -> DistinctNames:
    """Find the distinct names of nodes with the fields of Operation. O(nodes log nodes)."""
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
    """Structures of a lake, added file by file and folded by the names so far, which bounds their number."""

    def __init__(self, folder: NameFolder) -> None:
        self._folder = folder
        self._tables: list[pa.Table] = []
        self._keys: list[pa.Array] = []
        self._became: list[I8] = []
        """For each file, [rows] row in its folded table."""
        self._added: set[str] = set()
        """Keys of the structures so far: every window repeats those of its requests."""

    def add(self, stored: pa.Table) -> None:
        """Add rows of STORED_STRUCTURES_SCHEMA; of a repeated key the first row. O(nodes of new rows); holds
        the names of some rows at a time."""
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
        """(structures, old keys -> new keys or None if nothing was folded). No `add` afterwards."""
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
    """Keys of structures before and after folding."""

    folding: Folding
    key: pa.ChunkedArray
    became: I8
    """[keys] index into `left`."""
    left: pa.StringArray
    """Key of each folded structure: the least key of those merged."""

    def recoded(self, category: pa.ChunkedArray) -> pa.DictionaryArray:
        """Replace a column of keys, dictionary-encoded. Raises LakeError for a key without a structure."""
        one = whole(category.unify_dictionaries())
        at = pc.index_in(one.dictionary, value_set=self.key)
        if at.null_count:
            raise LakeError("Flows of a category without a structure.", remedy="Run flowdiff fsck.")
        codes = self.became.astype(np.int32)[at.to_numpy()][one.indices.to_numpy()]
        return pa.DictionaryArray.from_arrays(pa.array(codes), self.left)


def fold_structures(
    stored: pa.Table, names: DistinctNames, folded: Sequence[Operation]
) -> tuple[pa.Table, I8]:
    """Fold the names of structures; returns (unique rows, [rows] index of each old row in them).

    names: of the nodes of `stored`. folded: [distinct names] what each becomes.

    Structures with equal nodes in equal order are merged, under the least of their keys. Structures that
    differ only in an order that depended on the old names stay apart until graphs are made.
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
