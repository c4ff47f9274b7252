"""Find the native library of this folder and call its functions with numpy arrays.

The library is optional: `build.py` builds it if a Rust compiler is installed. If its sources lie beside it
and it was built from different ones, it is not used, as its tables may have different columns.
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
    """The loaded native library; its functions are called by name, without Python's lock."""

    def __init__(self, path: Path) -> None:
        """Load the library. Raises OSError for a file that is no library for this machine."""
        self._functions = ctypes.CDLL(str(path))

    def call(self, name: str, types: Sequence[np.dtype[Any]], *arrays: npt.NDArray[Any]) -> int:
        """Call a function of the library with contiguous arrays whose dtypes must be `types`; return its
        integer result.

        Raises TypeError for arrays of other dtypes and RuntimeError if the library panics (both are bugs);
        MemoryError.
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
    """Result of searching for the native library: the library, or the reason why there is none."""

    library: Library | None
    why: str = ""

    @property
    def reader(self) -> str:
        """Name of the reader of OTLP protobuf that is used, for display."""
        return "native reader" if self.library is not None else f"portable reader ({self.why})"


@cache
def native_library() -> Found:
    """The native library of this folder, or why it cannot be used; the search runs once per process."""
    return find_library(FOLDER)


def find_library(folder: Path) -> Found:
    """Search for the native library in a folder. It is used if it was built from the sources in the folder,
    or if there are no sources."""
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
