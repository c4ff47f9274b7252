"""Keep parts of windows that are not complete yet: in memory as rows of shared tables, or in a file of which
tasks pass on only the name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.windows import Window
from stitch.drivers.sharded.exchange import Exchange, HandedFile, opened, refused_if_broken
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.windowing import WindowPart

_COPIED_TOGETHER: Final = 256
"""Parts copied into one table: a copy takes at least a millisecond, and a table of a single part up to 30 kB
beside its rows."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class HeldPart:
    """Part of a window in memory: rows of tables that many parts share."""

    window: Window
    nbytes: int
    """Bytes of the part's rows."""
    tables: tuple[pa.Table, ...]
    """Shared table of each of WINDOW_TABLES."""
    first: tuple[int, ...]
    """First row of the part in each table."""
    rows: tuple[int, ...]
    """Number of rows of the part in each table."""

    def part(self) -> WindowPart:
        """Rows of the part, sharing memory with the tables."""
        sliced = (table.slice(*at) for table, *at in zip(self.tables, self.first, self.rows, strict=True))
        return WindowPart(self.window, *sliced)


@dataclass(frozen=True, slots=True)
class LeftPart:
    """Location of a part of a window in a file of many parts; a part is one Arrow IPC stream per table,
    concatenated."""

    window: Window
    nbytes: int
    """Bytes of the part in memory."""
    file: HandedFile
    start: int
    """Byte offset of the part in the file."""


WaitingPart = HeldPart | LeftPart
WindowParts = tuple[int, list[WaitingPart]]
"""(Number of the file to write, parts of one window that are merged into one file per table)."""


def hold_parts(parts: Iterable[WindowPart]) -> Iterator[HeldPart]:
    """Copy parts, so that they do not keep the buffers of their whole group in memory."""
    parts = iter(parts)
    while together := [*islice(parts, _COPIED_TOGETHER)]:
        of_tables = [[getattr(part, name) for part in together] for name in WINDOW_TABLES]
        tables = tuple(_copied(pa.concat_tables(of_table)) for of_table in of_tables)
        rows = np.array([[table.num_rows for table in of_table] for of_table in of_tables])
        first = rows.cumsum(axis=1) - rows
        for part, at, n in zip(together, first.T.tolist(), rows.T.tolist(), strict=True):
            yield HeldPart(part.window, part.nbytes, tables, tuple(at), tuple(n))


def _copied(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.arange(table.num_rows))).combine_chunks()


def leave_parts(parts: Sequence[HeldPart], exchange: Exchange) -> list[LeftPart]:
    """Write parts to one file of the exchange, and return the location of each part in it. Raises OSError."""
    if not parts:
        return []
    left = []
    with exchange.folder() as folder:
        path = folder / "windows.arrows"
        with pa.OSFile(str(path), "wb") as file:
            for part in parts:
                left.append((part.window, part.nbytes, file.tell()))
                own = part.part()
                for name in WINDOW_TABLES:
                    table = getattr(own, name)
                    with pa.ipc.new_stream(file, table.schema, options=_OPTIONS) as stream:
                        stream.write_table(table)
        (handed,) = exchange.hand_on([path])
    return [LeftPart(window, nbytes, handed, start) for window, nbytes, start in left]


def load_parts(windows: Iterable[WindowParts]) -> Iterator[tuple[int, list[WindowPart]]]:
    """Yield windows with their parts read into memory. Opens every file once. Raises OSError, LakeError."""
    files: dict[HandedFile, pa.NativeFile] = {}
    with ExitStack() as stack:

        def loaded(part: WaitingPart) -> WindowPart:
            if isinstance(part, HeldPart):
                return part.part()
            if part.file not in files:
                files[part.file] = stack.enter_context(opened(part.file))
            with refused_if_broken(part.file):
                files[part.file].seek(part.start)
                tables = [pa.ipc.open_stream(files[part.file]).read_all() for _ in WINDOW_TABLES]
            return WindowPart(part.window, *tables)

        for number, parts in windows:
            yield number, [loaded(part) for part in parts]
