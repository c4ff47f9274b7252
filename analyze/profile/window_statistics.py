"""Statistics of a period's windows by relation, for SQL views: read if stored, else computed from requests.

Both give equal results, so a view returns the same rows before and after `flowdiff summarize`. Nothing is
written, as the user may lack the permission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from analyze.load import load_population
from analyze.profile.encoding import relations_of, rows_kept
from analyze.profile.stored import kept_of_window, made_of, window_pieces
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod
from schemas.errors import PeriodError
from schemas.statistics import NAMES, columns_of_relation

_START: Final = pa.field("start_ns", pa.int64(), nullable=False)


class WindowStatistics:
    """Statistics of the windows of one period; each relation is read on demand."""

    def __init__(self, found: LakePeriod, settings: RefineSettings) -> None:
        """found: the period; its filter is ignored."""
        self._pieces = window_pieces(found)
        self._settings = settings
        self._made: dict[int, Mapping[str, pa.StructArray]] = {}
        """Cache: index of a window without stored statistics -> its relations, computed from requests."""

    def rows(self, relation: str) -> pa.Table:
        """Rows of relation `relation` over all windows.

        In relations of names each name occurs once; relations of sums get a column `start_ns`, the start of
        the window, even if the period begins later. Raises LakeError if requests cannot be read.
        """
        schema = columns_of_relation(relation)
        if relation not in NAMES:
            schema = pa.schema([_START, *schema])
        parts = [schema.empty_table()]
        known = pa.array([], pa.int64())
        for start_ns, rows in self._windows(relation):
            columns = rows.flatten()
            if relation in NAMES:
                is_new = pc.invert(pc.is_in(columns[0], value_set=known))
                columns = [column.filter(is_new) for column in columns]
                known = pa.concat_arrays([known, columns[0]])
            else:
                columns = [pa.repeat(start_ns, len(rows)), *columns]
            parts.append(pa.Table.from_arrays(columns, schema=schema))
        return pa.concat_tables(parts)

    def _windows(self, relation: str) -> Iterator[tuple[int, pa.StructArray]]:
        """Yield (start of a window, Unix ns; the window's rows of the relation), in time order."""
        for at in range(len(self._pieces)):
            here = self._pieces[at]
            if at not in self._made:
                rows = rows_kept(kept_of_window(here, self._settings), relation)
                if rows is not None:
                    yield here.windows[0].start_ns, rows
                    continue
                self._made[at] = self._make(here)
            if self._made[at]:
                yield here.windows[0].start_ns, self._made[at][relation]

    def _make(self, here: LakePeriod) -> Mapping[str, pa.StructArray]:
        try:
            loaded = load_population([("window", here)], self._settings)
        except PeriodError:
            return {}
        return relations_of(made_of(loaded.population, here, self._settings))
