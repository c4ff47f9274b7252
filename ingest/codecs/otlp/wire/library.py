"""Find the native library of this folder and call its functions with numpy arrays.

The library is optional: `build.py` makes it if a Rust compiler is installed. A library built from sources
other than those beside it is not used, as its tables may have other columns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ingest.codecs.otlp.wire.build import DIGEST, FOLDER, LIBRARY, source_digest, source_files

_PANICKED: Final = -1
_NO_ROOM: Final = -2
_BUILD: Final = "`make native` builds it"


class Library:
    """Functions of the native library, called by name; they release Python's lock."""

    def __init__(self, path: Path) -> None:
        """Load the library. Raises OSError for a file that is no library for this machine."""
        self._functions = ctypes.CDLL(str(path))

    def call(self, name: str, types: Sequence[np.dtype[Any]], *arrays: npt.NDArray[Any]) -> int:
        """Call a function with contiguous arrays of the given types; return its integer result.

        Raises TypeError for other arrays, and RuntimeError after a panic (both are bugs), and MemoryError.
        """
        given = (ctypes.c_int64 * (2 * len(arrays)))()
        for place, (array, type_) in enumerate(zip(arrays, types, strict=True)):
            if array.dtype != type_ or array.ndim != 1 or not array.flags.c_contiguous:
                raise TypeError(f"array {place} of {name}: {array.dtype}, {array.shape}")
            given[2 * place] = array.__array_interface__["data"][0]
            given[2 * place + 1] = len(array)
        function = getattr(self._functions, name)
        function.restype = ctypes.c_int64
        number = int(function(given, ctypes.c_int64(len(arrays))))
        if number == _NO_ROOM:
            raise MemoryError
        if number == _PANICKED:
            raise RuntimeError(f"`{name}` of the native library panicked")
        return number


@dataclass(frozen=True, slots=True)
class Found:
    """The native library, or the reason for its absence."""

    library: Library | None
    why: str = ""

    @property
    def reader(self) -> str:
        """Name of the reader of OTLP protobuf that is used, for display."""
        return "native reader" if self.library is not None else f"portable reader ({self.why})"


@cache
def native_library() -> Found:
    """Native library of this folder, or the reason for its absence; searched for once per process."""
    return find_library(FOLDER)


def find_library(folder: Path) -> Found:
    """Native library in a folder, if its sources are absent or it was built from them."""
    path = folder / LIBRARY
    has_sources = bool(source_files(folder))
    if not path.is_file():
        return Found(None, f"no native library: {_BUILD}" if has_sources else "no native library")
    if has_sources and _digest_beside(path) != source_digest(folder):
        return Found(None, f"the native library is older than its source: {_BUILD}")
    try:
        return Found(Library(path))
    except OSError as error:
        return Found(None, f"the native library cannot be loaded: {error}")


def _digest_beside(path: Path) -> str:
    try:
        return path.with_name(DIGEST).read_text().strip()
    except OSError:
        return ""
