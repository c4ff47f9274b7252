"""Table of the kinds of remote stores in which a lake can be, one row each; a lake can also be a folder of
this machine.

To add a kind of store: write a module with its settings and its store under `stitch/lake`, and add a row
here. All other code uses `stitch.lake.place`. The store's module is imported only when a lake is opened, as
its client library is an optional dependency.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from schemas.errors import ConfigError
from schemas.masking import masked_address

if TYPE_CHECKING:
    from stitch.lake.store import RemoteStore


@dataclass(frozen=True, slots=True)
class Backend:
    """Kind of remote store that can contain lakes."""

    scheme: str
    """Beginning of the name of every lake in such a store: `s3://`."""
    form: str
    """Form of a lake's name, for help and messages: `s3://BUCKET/PREFIX`."""
    settings_maker: str
    """`module:function` that makes hashable settings from a lake's name and the environment; lakes with equal
    settings are the same lake. Works without the client library. Raises ConfigError."""
    store_class: str
    """`module:class` of the store (`RemoteStore`), constructed from the settings."""
    hint: str = ""
    """Advice, shown in error messages, on how to reach other stores by this backend: `for other S3 stores set
    AWS_ENDPOINT_URL`; empty: none."""

    def settings(self, name: str, environ: Mapping[str, str]) -> Hashable:
        """Settings of the lake called `name`, including credentials. Raises ConfigError for an invalid name
        or setting."""
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
"""Forms of a lake's name, for help texts: `a folder, or s3://BUCKET/PREFIX`."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def backend_of(name: str) -> Backend | None:
    """Backend of the lake or file called `name`; None for a path on this machine.

    Raises ConfigError for a scheme without a backend (`gs://…`).
    """
    scheme = _SCHEME.match(name)
    if scheme is None:
        return None
    found = next((backend for backend in BACKENDS if backend.scheme == scheme[0]), None)
    if found is None:
        hints = "; ".join([LAKE_FORMS, *(backend.hint for backend in BACKENDS if backend.hint)])
        raise ConfigError(
            f"'{masked_address(name)}' names no lake: {scheme[0]} is not read.", remedy=f"Write {hints}."
        )
    return found


def _loaded(path: str) -> object:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
