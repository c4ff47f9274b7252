"""Open a lake by its name: a folder of this machine, or `s3://bucket/prefix`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from stitch.lake.bucket.bucket_settings import BucketSettings, bucket_settings
from stitch.lake.bucket.bucket_settings import is_bucket as is_bucket
from stitch.lake.copies import Copies, FileCache, cache_at
from stitch.lake.store import LocalStore, Store

if TYPE_CHECKING:
    from stitch.lake.bucket.bucket_store import BucketStore


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A lake, existing or not, for reading and writing."""

    name: str
    """Name as the user wrote it."""
    store: Store
    root: Path
    """Folder with its files: the lake itself, or that of its copies."""
    copies: Copies | None = None
    """Local copies; None for a folder."""


def open_store(name: str) -> Store:
    """Store of a lake, which need not exist yet.

    Raises ConfigError for wrong names or settings, LakeError where a bucket cannot be reached.
    """
    return open_bucket(name) if is_bucket(name) else LocalStore.at(Path(name))


def open_bucket(name: str) -> BucketStore:
    """Store of everything below `s3://bucket/prefix`, a lake or not. Raises as `open_store`."""
    return _bucket(bucket_settings(name, os.environ))


def open_place(name: str, environ: Mapping[str, str] | None = None) -> LakePlace:
    """Open a lake as `open_store` does, with a bucket's files copied to the user's cache, once a process.

    Raises as `open_store`, and LakeError where the cache cannot be used.
    """
    if not is_bucket(name):
        root = Path(name)
        return LakePlace(name, LocalStore.at(root), root)
    variables = os.environ if environ is None else environ
    copies = _copies(bucket_settings(name, variables), cache_at(variables))
    return LakePlace(name, copies.store, copies.root, copies)


@lru_cache(maxsize=16)
def _bucket(settings: BucketSettings) -> BucketStore:
    from stitch.lake.bucket.bucket_store import BucketStore  # its client is an extra, and takes time to load

    store = BucketStore(settings)
    store.check()
    return store


@lru_cache(maxsize=16)
def _copies(settings: BucketSettings, cache: FileCache) -> Copies:
    return Copies(_bucket(settings), cache, settings.short_name)
