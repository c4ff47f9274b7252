"""`SHA256SUMS`: what belongs to a folder, as `sha256sum --check` reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

SUMS: Final = "SHA256SUMS"


def write_sums(files: Mapping[str, bytes]) -> bytes:
    """A line a file."""
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    return "".join(lines).encode()


def read_sums(data: pa.Buffer) -> dict[str, str]:
    """Hashes by name; what is no such line names no file that is there."""
    lines = data.to_pybytes().decode(errors="replace").splitlines()
    return {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
