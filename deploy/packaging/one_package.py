"""Build flowdiff as one package: in a wheel everything importable lies under `flowdiff.`.

The backend of PEP 517 that pyproject.toml names. The checkout keeps its folders; a wheel is built by
setuptools from a copy in which each of them is a subpackage, and every import says so. An editable
installation and a source distribution are setuptools' own.

The native library is built where cargo is, for release always: beside its sources for an editable
installation, into the wheel, which then is of one platform, for another. Without it a wheel is of any.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, TypeVar

from setuptools import build_meta
from setuptools.build_meta import (
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
ROOMS = ("schemas", "ingest", "stitch", "analyze", "simulator")
"""Top-level packages of the checkout that are subpackages of `PACKAGE` in a wheel."""
BESIDE = ("pyproject.toml", "README.md", "LICENSE")
NATIVE = "ingest/codecs/otlp/wire"
"""Folder of the native library in the checkout."""
_NOT_INSTALLED = ("__pycache__", "*.md", "*.rs", "Cargo.*", "fuzz.py", "libwire.*")

T = TypeVar("T")


def build_editable(to: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build the wheel of an editable installation into a folder, the native library in place; its name."""
    native = Path.cwd() / NATIVE
    _builder(native).build(native, native, Path.cwd() / "build" / "wire")
    name: str = build_meta.build_editable(to, settings, metadata)
    return name


def build_wheel(to: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build a wheel into a folder; its name."""
    target = str(Path(to).resolve())
    prepared = None if metadata is None else str(Path(metadata).resolve())
    native = Path.cwd() / NATIVE

    def build() -> str:
        with TemporaryDirectory(prefix="flowdiff-native-") as built:
            if _builder(native).build(native, Path(PACKAGE, NATIVE).absolute(), Path(built)) is not None:
                platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                Path("setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {platform}\n")
        name: str = build_meta.build_wheel(target, settings, prepared)
        return name

    return _in_one_package(build)


def prepare_metadata_for_build_wheel(to: str, settings: Any = None) -> str:
    """Write what a wheel says of itself into a folder; its name."""
    target = str(Path(to).resolve())
    return _in_one_package(lambda: build_meta.prepare_metadata_for_build_wheel(target, settings))


def _builder(native: Path) -> ModuleType:
    """The module that builds the native library; its package need not be importable."""
    spec = importlib.util.spec_from_file_location("flowdiff_native_build", native / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    ignored = shutil.ignore_patterns(*_NOT_INSTALLED)
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
