"""SQL statements of pages over the views of a lake (docs/sql.md), one per file, values bound by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Text of the SQL statement in `<name>.sql`, without its header."""
    text = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


def shown(name: str, values: Mapping[str, str | int]) -> str:
    """Text of a statement with its values inserted, for readers to copy.

    (Pages run the statement with bound values.)
    """
    text = statement(name)
    for key, value in values.items():
        quoted = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
        text = text.replace(f":{key}", quoted)
    return text
