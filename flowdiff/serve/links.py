"""Addresses of a server's pages, below its base path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

Parameters = Mapping[str, str | int | Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class Links:
    """Makes addresses of pages: they begin with the base path, and their parts are quoted."""

    base: str = ""
    """Base path: empty, or `/a/b` without a trailing slash."""

    def to(self, *parts: str, **parameters: str | int | Sequence[str] | None) -> str:
        """Address of a page.

        parts: path segments, not yet quoted; parameters: query parameters, of which those that are None or
        empty are left out.
        """
        path = "".join(f"/{quote(part, safe='')}" for part in parts) or "/"
        asked = [
            (name.rstrip("_"), str(one))
            for name, value in parameters.items()
            for one in ((value,) if isinstance(value, str | int) else value or ())
            if one != ""
        ]
        return f"{self.base}{path}{'?' if asked else ''}{urlencode(asked)}"
