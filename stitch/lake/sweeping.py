"""Files that upkeep took out of the lake: what stands under another name until no reader can be at it, and
what can go.

Whatever is touched is hidden by commits of the upkeep lane, whose files are published: so a sweep may stop at
any instant, and is done again, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from schemas.windows import Window
from stitch.lake.layout import ASIDE, SIDE_TABLES, WINDOW_TABLES, origin
from stitch.lake.stats_files import STATS
from stitch.lake.store import Move, Store
from stitch.lake.upkeep import Hidden

_FOLDER: Final = "window="


def swept(store: Store, hidden: Hidden) -> list[str]:
    """Names of files and folders of windows that are hidden, as they are there now. Removes nothing.

    A folder is named where all of it goes, a file under the name that it has. O(windows + files of windows
    that were written anew).
    """
    found: list[str] = []
    anew = frozenset(hidden.starts_ns.tolist())
    for table in (*WINDOW_TABLES, STATS):
        for name in store.names(table):
            start = _start_ns(name, hidden.length_ns)
            if start is None:
                continue
            if hidden.retired_to_ns is not None and start + hidden.length_ns <= hidden.retired_to_ns:
                found.append(f"{table}/{name}")
            elif table != STATS and start in anew:
                found += _replaced(store, hidden, f"{table}/{name}", start)
    for table in SIDE_TABLES:
        if table in hidden.sides:
            told = ((name, origin(name.removesuffix(ASIDE))) for name in store.names(table))
            found += [f"{table}/{n}" for n, at in told if at is not None and hidden.is_gone(table, *at[:2])]
    return found


def set_aside(store: Store, names: Iterable[str]) -> None:
    """Give data files that a generation replaces another name: a plain glob counts their rows no more, and
    readers that had begun find them (`Manifest.read`, `reading.still_at`). Those that are gone are passed by.

    Raises OSError: the rest is for the next time.
    """
    there = [name for name in names if store.size(name) is not None]
    store.publish([Move(name, f"{name}{ASIDE}") for name in there])
    for name in there:
        if store.size(name) is not None:  # a bucket that copied and was interrupted
            store.remove(name)


def _replaced(store: Store, hidden: Hidden, folder: str, start_ns: int) -> list[str]:
    files = [(name, origin(name.removesuffix(ASIDE))) for name in store.names(folder)]
    ours = [(name, told) for name, told in files if told is not None]
    if not ours:
        return []
    gone = hidden.mask(
        np.full(len(ours), start_ns),
        np.array([told[0] for _, told in ours]),
        np.array([told[1] for _, told in ours]),
    )
    return [f"{folder}/{name}" for (name, _), is_gone in zip(ours, gone, strict=True) if is_gone]


def _start_ns(folder: str, length_ns: int) -> int | None:
    """Start of the window of a folder (last part of its name); None for a name that is not ours."""
    if not folder.startswith(_FOLDER):
        return None
    try:
        return Window.from_name(folder.removeprefix(_FOLDER), length_ns).start_ns
    except ValueError:
        return None
