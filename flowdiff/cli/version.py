"""Say which flowdiff this is."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Version of the installed package; `0+source` when run from a checkout that is not installed."""
    try:
        return metadata.version("flowdiff")
    except metadata.PackageNotFoundError:
        return "0+source"
