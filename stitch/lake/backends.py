"""Table of the stores that a lake can lie in beside a folder of this machine: one row each, no other list.

To add one: a file with its settings and its store under `stitch/lake`, and a row here. All else asks
`stitch.lake.place`. The store's module is imported when a lake is opened: its client is an extra.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from schemas.errors import ConfigError

if TYPE_CHECKING:
    from stitch.lake.store import RemoteStore


@dataclass(frozen=True, slots=True)
class Backend:
    """Kind of remote store that can have lakes."""

    scheme: str
    """Scheme of the names of lakes in such a store: `s3://`."""
    form: str
    """Form of a lake's name, for help and messages: `s3://BUCKET/PREFIX`."""
    settings_maker: str
    """`module:function` that makes hashable settings from a lake's name and the environment; equal settings
    mean the same lake. Needs no client. Raises ConfigError.
    """
    store_class: str
    """`module:class` of the store (`RemoteStore`), constructed from the settings."""
    hint: str = ""
    """Remark on other stores that this backend can reach, for messages; empty: none."""

    def settings(self, name: str, environ: Mapping[str, str]) -> Hashable:
        """Settings of a lake, credentials included. Raises ConfigError for a wrong name or setting."""
        return cast("Callable[[str, Mapping[str, str]], Hashable]", _loaded(self.settings_maker))(
            name, environ
        )

    def store(self, settings: Hashable) -> RemoteStore:
        """Store of a lake, which need not exist yet. Sends no request."""
        return cast("Callable[[Hashable], RemoteStore]", _loaded(self.store_class))(settings)


BACKENDS: Final = (
    Backend(
        "s3://",
        "s3://BUCKET/PREFIX",
        "stitch.lake.bucket.bucket_settings:bucket_settings",
        "stitch.lake.bucket.bucket_store:BucketStore",
        hint="for other S3 stores set AWS_ENDPOINT_URL",
    ),
)
LAKE_FORMS: Final = ", or ".join(["a folder", *(backend.form for backend in BACKENDS)])
"""Names of lakes, for help: `a folder, or s3://BUCKET/PREFIX`."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def backend_of(name: str) -> Backend | None:
    """Backend of a lake or file by its name; None for a folder of this machine.

    Raises ConfigError for a scheme without a row (`gs://…`).
    """
    scheme = _SCHEME.match(name)
    if scheme is None:
        return None
    found = next((backend for backend in BACKENDS if backend.scheme == scheme[0]), None)
    if found is None:
        hints = "; ".join([LAKE_FORMS, *(backend.hint for backend in BACKENDS if backend.hint)])
        raise ConfigError(f"'{name}' names no lake: {scheme[0]} is not read.", remedy=f"Write {hints}.")
    return found


def _loaded(path: str) -> object:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
