"""Open a lake by its name: a folder of this machine, or a remote store of `backends`.

Only this module knows the difference. It provides the lake's store, its folder on this machine if it has one,
its name for other processes, and its address for other tools.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from schemas.errors import ConfigError, LakeError
from schemas.masking import masked_address
from stitch.lake.backends import Backend, backend_of
from stitch.lake.copies import Copies, FileCache, cache_at
from stitch.lake.disk import make_private_folder
from stitch.lake.store import LocalStore, RemoteStore, Store


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A lake, which may not exist yet, opened for reading and writing."""

    name: str
    """Name of the lake as the user wrote it."""
    store: Store
    root: Path
    """Folder with the lake's files: the lake itself, or the folder of local copies of a remote lake."""
    copies: Copies | None = None
    """Local copies of the lake's files; None for a lake that is a folder."""


def open_store(name: str) -> Store:
    """Store of the lake called `name`, which need not exist yet.

    Raises ConfigError for an invalid name or setting, LakeError if a remote store cannot be reached.
    """
    folder = local_path(name)
    return remote_store(name) if folder is None else LocalStore.at(folder)


def remote_store(name: str) -> RemoteStore:
    """Store for everything below the remote name `name`, which need not be a lake. Raises as `open_store`."""
    backend = backend_of(name)
    assert backend is not None, "local_path is None"
    return _opened(backend, backend.settings(name, os.environ))


def open_place(name: str, environ: Mapping[str, str] | None = None) -> LakePlace:
    """Open the lake called `name` as `open_store` does; remote files are copied to the user's cache, and a
    process shares the copies of a lake.

    Raises as `open_store`, and LakeError if the cache cannot be used.
    """
    backend = backend_of(name)
    if backend is None:
        root = Path(name)
        return LakePlace(name, LocalStore.at(root), root)
    variables = os.environ if environ is None else environ
    copies = _copies(backend, backend.settings(name, variables), cache_at(variables))
    return LakePlace(name, copies.store, copies.root, copies)


def local_path(name: str) -> Path | None:
    """Path of the folder or file on this machine that `name` denotes, as written; None for a remote name.

    Raises ConfigError for an unknown scheme.
    """
    return Path(name) if backend_of(name) is None else None


def needed_folder(name: str, remedy: str) -> Path:
    """Path of the folder on this machine that `name` denotes, for operations that need a local folder.

    remedy: sentence that says what to do with a remote lake. Raises ConfigError for a remote name.
    """
    folder = local_path(name)
    if folder is None:
        raise ConfigError(f"'{masked_address(name)}' is no folder of this machine.", remedy=remedy)
    return folder


def absolute(name: str) -> str:
    """Name of the same lake for processes with another working directory: an absolute path, or the remote
    name."""
    folder = local_path(name)
    return name if folder is None else str(folder.absolute())


def address(name: str) -> str:
    """Address of a lake for other tools, with the path resolved: `file:///…`, `s3://…`."""
    folder = local_path(name)
    return name.rstrip("/") if folder is None else f"file://{folder.resolve()}"


def make_folder(name: str, option: str = "--lake") -> None:
    """Create the folder of a lake, with access for its owner only, below an existing folder; does nothing for
    a remote lake.

    option: command-line option that names the lake, for messages. Raises LakeError.
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
