"""Extras that install optional packages, which only some commands need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from schemas.errors import ConfigError

EXTRAS: Final = {
    "anyio": "serve",
    "crc32c": "kafka",
    "grpc": "serve",
    "httptools": "serve",
    "kafka": "kafka",
    "lz4": "kafka",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "obstore": "s3",
    "prometheus_client": "kafka",
    "py4j": "spark",
    "pyspark": "spark",
    "pyiceberg": "iceberg",
    "sklearn": "clusters",
    "snappy": "kafka",
    "sqlalchemy": "iceberg",
    "starlette": "serve",
    "structlog": "kafka",
    "threadpoolctl": "clusters",
    "uvicorn": "serve",
    "zstandard": "kafka",
}
"""Importable name of an optional package -> extra of pyproject.toml that installs it."""
TABLES: Final = ("pandas", "polars")
"""Optional packages for converting tables, which no extra installs."""


def missing_extra(error: ModuleNotFoundError) -> ConfigError | None:
    """ConfigError with the command that installs a missing optional package; None for all other modules."""
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS and name not in TABLES:
        return None
    what = name if name in TABLES else f"'flowdiff[{EXTRAS[name]}]'"
    return ConfigError(
        f"This needs the package {name}, which is not installed.", remedy=f"Run: pip install {what}."
    )


def installed(command: str) -> bool:
    """True if the packages of the extra named like `command` are installed, or if there is no such extra."""
    return all(find_spec(name) for name, extra in EXTRAS.items() if extra == command)


@contextmanager
def needed() -> Iterator[None]:
    """Context for importing an optional package: raises ConfigError with the install command."""
    try:
        yield
    except ModuleNotFoundError as error:
        refusal = missing_extra(error)
        if refusal is None:
            raise
        raise refusal from error
