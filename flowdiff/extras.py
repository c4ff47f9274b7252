"""Extras that install optional packages: packages that only single commands need are optional."""

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
"""Importable names of optional packages, and the extra of pyproject.toml that installs each."""
TABLES: Final = ("pandas", "polars")
"""Packages that tables can be converted to, which no extra installs."""


def missing_extra(error: ModuleNotFoundError) -> ConfigError | None:
    """Error with the install command for a failed import; None for a module that flowdiff does not use."""
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS and name not in TABLES:
        return None
    what = name if name in TABLES else f"'flowdiff[{EXTRAS[name]}]'"
    return ConfigError(
        f"This needs the package {name}, which is not installed.", remedy=f"Run: pip install {what}."
    )


def installed(command: str) -> bool:
    """True if the packages of the extra named like a command are installed; also if there is no such
    extra.
    """
    return all(find_spec(name) for name, extra in EXTRAS.items() if extra == command)


@contextmanager
def needed() -> Iterator[None]:
    """Guard an import of an optional package: raises ConfigError with the install command."""
    try:
        yield
    except ModuleNotFoundError as error:
        refusal = missing_extra(error)
        if refusal is None:
            raise
        raise refusal from error
