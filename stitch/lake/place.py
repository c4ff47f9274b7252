"""Open a lake by its name: a folder of this machine, or a remote store of `backends`.

Nobody else asks where a lake lies. What differs between the two is in the answers here: a store, a folder of
this machine or none, a name for other processes, an address.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from schemas.errors import LakeError
from stitch.lake.backends import Backend, backend_of
from stitch.lake.copies import Copies, FileCache, cache_at
from stitch.lake.disk import make_private_folder
from stitch.lake.store import LocalStore, RemoteStore, Store


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A lake, existing or not, for reading and writing."""

    name: str
    """Name of the lake as the user wrote it."""
    store: Store
    root: Path
    """Folder with the lake's files: the lake itself, or the folder of its local copies."""
    copies: Copies | None = None
    """Local copies of the lake's files; None for a lake that is a folder."""


def open_store(name: str) -> Store:
    """Store of a lake, which need not exist yet.

    Raises ConfigError for wrong names or settings, LakeError where a remote store cannot be reached.
    """
    folder = local_path(name)
    return remote_store(name) if folder is None else LocalStore.at(folder)


def remote_store(name: str) -> RemoteStore:
    """Store of everything below the remote name `name`, a lake or not. Raises as `open_store`."""
    backend = backend_of(name)
    assert backend is not None, "local_path is None"
    return _opened(backend, backend.settings(name, os.environ))


def open_place(name: str, environ: Mapping[str, str] | None = None) -> LakePlace:
    """Open a lake as `open_store` does, with remote files copied to the user's cache, once a process.

    Raises as `open_store`, and LakeError where the cache cannot be used.
    """
    backend = backend_of(name)
    if backend is None:
        root = Path(name)
        return LakePlace(name, LocalStore.at(root), root)
    variables = os.environ if environ is None else environ
    copies = _copies(backend, backend.settings(name, variables), cache_at(variables))
    return LakePlace(name, copies.store, copies.root, copies)


def local_path(name: str) -> Path | None:
    """Path of the folder or file of this machine that `name` means, as written; None for a remote one.

    Raises ConfigError for an unknown scheme.
    """
    return Path(name) if backend_of(name) is None else None


def absolute(name: str) -> str:
    """Name of the same lake for processes with another working folder: absolute, if it is a path."""
    folder = local_path(name)
    return name if folder is None else str(folder.absolute())


def address(name: str) -> str:
    """Address of a lake for other tools, independent of the path that leads there: `file:///…`, `s3://…`."""
    folder = local_path(name)
    return name.rstrip("/") if folder is None else f"file://{folder.resolve()}"


def make_folder(name: str, option: str = "--lake") -> None:
    """Make the folder of a lake, for its owner alone, below an existing parent; a remote lake needs none.

    option: the option that names it, for messages. Raises LakeError.
    """
    folder = local_path(name)
    if folder is None:
        return
    try:
        make_private_folder(folder)
    except OSError as error:
        raise LakeError(
            f"The folder '{name}' cannot be made: {error.strerror}.", remedy=f"Check {option}."
        ) from error


@lru_cache(maxsize=16)
def _opened(backend: Backend, settings: Hashable) -> RemoteStore:
    store = backend.store(settings)
    store.check()
    return store


@lru_cache(maxsize=16)
def _copies(backend: Backend, settings: Hashable, cache: FileCache) -> Copies:
    return Copies(_opened(backend, settings), cache)
