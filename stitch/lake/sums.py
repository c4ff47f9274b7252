"""`SHA256SUMS-<content>.txt`: what belongs to a folder, as `sha256sum --check` reads it.

Named by their content (`stitch.lake.kept_files`) and never replaced: of two writers each leaves its own, so
every file of the folder is in those of who wrote it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from stitch.lake import kept_files

SUMS: Final = "SHA256SUMS"
"""Of reports kept by earlier versions: the whole name."""


def write_sums(files: Mapping[str, bytes]) -> bytes:
    """A line a file."""
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    return "".join(lines).encode()


def sums_name(data: bytes) -> str:
    """Name the file of such lines."""
    return kept_files.name_of(SUMS, data, "txt")


def sums_among(names: Iterable[str]) -> list[str]:
    """Choose the files of sums among the names in a folder."""
    return [name for name in names if name == SUMS or name.startswith(f"{SUMS}-")]


def read_sums(data: pa.Buffer) -> dict[str, str]:
    """Hashes by name; what is no such line names no file that is there."""
    lines = data.to_pybytes().decode(errors="replace").splitlines()
    return {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
