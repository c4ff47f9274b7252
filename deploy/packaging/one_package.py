"""Build flowdiff as one package: in a wheel everything importable lies under `flowdiff.`.

The backend of PEP 517 that pyproject.toml names. The checkout keeps its folders; a wheel is built by
setuptools from a copy in which each of them is a subpackage, and every import says so. An editable
installation and a source distribution are setuptools' own.
"""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

PACKAGE = "flowdiff"
ROOMS = ("schemas", "ingest", "stitch", "analyze")
"""Top-level packages of the checkout that are subpackages of `PACKAGE` in a wheel."""
BESIDE = ("pyproject.toml", "README.md", "LICENSE")

T = TypeVar("T")


def build_wheel(to: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build a wheel into a folder; its name."""
    target = str(Path(to).resolve())
    prepared = None if metadata is None else str(Path(metadata).resolve())
    return _in_one_package(lambda: build_meta.build_wheel(target, settings, prepared))


def prepare_metadata_for_build_wheel(to: str, settings: Any = None) -> str:
    """Write what a wheel says of itself into a folder; its name."""
    target = str(Path(to).resolve())
    return _in_one_package(lambda: build_meta.prepare_metadata_for_build_wheel(target, settings))


def _in_one_package(build: Callable[[], T]) -> T:
    here = Path.cwd()
    with TemporaryDirectory(prefix="flowdiff-wheel-") as copy:
        lay_out(here, Path(copy))
        os.chdir(copy)
        try:
            return build()
        finally:
            os.chdir(here)


def lay_out(checkout: Path, to: Path) -> None:
    """Copy the checkout as one package. Raises ValueError for an import that cannot be rewritten."""
    for name in BESIDE:
        shutil.copy(checkout / name, to)
    ignored = shutil.ignore_patterns("__pycache__", "*.md")
    shutil.copytree(checkout / PACKAGE, to / PACKAGE, ignore=ignored)
    for room in ROOMS:
        shutil.copytree(checkout / room, to / PACKAGE / room, ignore=ignored)
    modules = frozenset(_modules(to / PACKAGE))
    for path in (to / PACKAGE).rglob("*.py"):
        path.write_bytes(rewritten(path.read_bytes(), modules))


def _modules(package: Path) -> Iterator[str]:
    """Dotted names of the modules and packages in the rooms, as the checkout names them."""
    for room in ROOMS:
        for path in (package / room).rglob("*.py"):
            parts = path.relative_to(package).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rewritten(source: bytes, modules: frozenset[str]) -> bytes:
    """A module's text with `flowdiff.` before every module of ours: in imports, and where a text is its name.

    Such texts are what `importlib` is given: `ingest.formats`, or `module:class`. Raises ValueError for
    `import ingest.formats`, which binds `ingest`: write `from ingest import formats`.
    """
    lines = source.splitlines(keepends=True)
    places: list[tuple[int, int]] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] in ROOMS:
                places.append((node.lineno, node.col_offset + len("from ")))
            case ast.Import():
                for name in node.names:
                    if name.name.partition(".")[0] in ROOMS:
                        if name.asname is None:
                            raise ValueError(f"line {node.lineno}: `import {name.name}` cannot be rewritten")
                        places.append((name.lineno, name.col_offset))
            case ast.Constant(value=str(text)) if "." in text and text.partition(":")[0] in modules:
                places.append((node.lineno, node.col_offset + 1))
    for line, column in sorted(places, reverse=True):
        text = lines[line - 1]
        if not text[column:].startswith(tuple(room.encode() for room in ROOMS)):
            raise ValueError(f"line {line}: no name of a module at {column}: {text!r}")
        lines[line - 1] = text[:column] + PACKAGE.encode() + b"." + text[column:]
    return b"".join(lines)
