"""Name the extra of a package that is not installed: what one command alone needs is optional."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from schemas.errors import ConfigError

EXTRAS: Final = {
    "crc32c": "kafka",
    "kafka": "kafka",
    "lz4": "kafka",
    "obstore": "s3",
    "prometheus_client": "kafka",
    "pyiceberg": "iceberg",
    "sklearn": "clusters",
    "snappy": "kafka",
    "sqlalchemy": "iceberg",
    "structlog": "kafka",
    "threadpoolctl": "clusters",
    "zstandard": "kafka",
}
"""Importable names of optional packages, and the extra of pyproject.toml that installs each."""
TABLES: Final = ("pandas", "polars")
"""What tables are given to where it is there, and no extra installs."""


def missing_extra(error: ModuleNotFoundError) -> ConfigError | None:
    """Say what to install so that an import succeeds; None for a module that nothing of ours needs."""
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS and name not in TABLES:
        return None
    what = name if name in TABLES else f"'flowdiff[{EXTRAS[name]}]'"
    return ConfigError(
        f"This needs the package {name}, which is not installed.", remedy=f"Run: pip install {what}."
    )


def installed(command: str) -> bool:
    """Tell whether the extra named as a command is installed; true of a command that has none."""
    return all(find_spec(name) for name, extra in EXTRAS.items() if extra == command)


@contextmanager
def needed() -> Iterator[None]:
    """Guard an import of a package that may be missing: raises ConfigError, which says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        refusal = missing_extra(error)
        if refusal is None:
            raise
        raise refusal from error
