"""Checksum lists `SHA256SUMS-<content>.txt` of a folder's files, in the format of `sha256sum --check`.

A list is named after a hash of its content (`stitch.lake.kept_files`) and never replaced: if two writers
write to a folder, each adds a list, so every file is in the list of its writer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from stitch.lake import kept_files

SUMS: Final = "SHA256SUMS"
"""Beginning of a checksum list's name; in reports of earlier versions the whole name."""


def write_sums(files: Mapping[str, bytes]) -> bytes:
    """Content of a checksum list, one line per file; files: name -> content."""
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    return "".join(lines).encode()


def sums_name(data: bytes) -> str:
    """Name of the checksum list with content `data`."""
    return kept_files.name_of(SUMS, data, "txt")


def sums_among(names: Iterable[str]) -> list[str]:
    """Names in a folder that are checksum lists."""
    return [name for name in names if name == SUMS or name.startswith(f"{SUMS}-")]


def read_sums(data: pa.Buffer) -> dict[str, str]:
    """Parse a checksum list: file name -> SHA-256 in hex; a malformed line gives a name that no file has."""
    lines = data.to_pybytes().decode(errors="replace").splitlines()
    return {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
