"""Write parts of windows that are not complete yet to a file, so that tasks pass on only the file's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from schemas.windows import Window
from stitch.drivers.sharded.exchange import Exchange, HandedFile, opened, refused_if_broken
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.windowing import WindowPart

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class LeftPart:
    """Location of one part of a window in a file of many parts; a part is one Arrow IPC stream per table,
    concatenated."""

    window: Window
    nbytes: int
    """Bytes of the part in memory."""
    file: HandedFile
    start: int
    """Byte offset of the part in the file."""


WaitingPart = WindowPart | LeftPart
WindowParts = tuple[int, list[WaitingPart]]
"""(Number of the file to write, parts of one window that are merged into one file per table)."""


def leave_parts(parts: Sequence[WindowPart], exchange: Exchange) -> list[LeftPart]:
    """Write parts to one file of the exchange, and return the location of each part in it. Raises OSError."""
    if not parts:
        return []
    starts = []
    with exchange.folder() as folder:
        path = folder / "windows.arrows"
        with pa.OSFile(str(path), "wb") as file:
            for part in parts:
                starts.append(file.tell())
                for name in WINDOW_TABLES:
                    table = getattr(part, name)
                    with pa.ipc.new_stream(file, table.schema, options=_OPTIONS) as stream:
                        stream.write_table(table)
        (handed,) = exchange.hand_on([path])
    return [
        LeftPart(part.window, part.nbytes, handed, start) for part, start in zip(parts, starts, strict=True)
    ]


def load_parts(windows: Iterable[WindowParts]) -> Iterator[tuple[int, list[WindowPart]]]:
    """Yield windows with their parts read into memory. Opens every file once. Raises OSError, LakeError."""
    files: dict[HandedFile, pa.NativeFile] = {}
    with ExitStack() as stack:

        def loaded(part: WaitingPart) -> WindowPart:
            if isinstance(part, WindowPart):
                return part
            if part.file not in files:
                files[part.file] = stack.enter_context(opened(part.file))
            with refused_if_broken(part.file):
                files[part.file].seek(part.start)
                tables = [pa.ipc.open_stream(files[part.file]).read_all() for _ in WINDOW_TABLES]
            return WindowPart(part.window, *tables)

        for number, parts in windows:
            yield number, [loaded(part) for part in parts]
