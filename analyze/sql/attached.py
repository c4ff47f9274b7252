"""Read somebody's own file or table, to be joined with a lake in SQL.

Read here, before any text of a user runs: the session itself stays locked, and gets rows, not a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from analyze.sql.catalog import VIEWS
from schemas.errors import ConfigError, InputError

READERS: Final = {
    ".csv": "FROM read_csv(?)",
    ".tsv": "FROM read_csv(?)",
    ".json": "FROM read_json(?)",
    ".jsonl": "FROM read_json(?)",
    ".ndjson": "FROM read_json(?)",
    ".parquet": "FROM read_parquet(?)",
}
"""What reads a file, by the end of its name; `.gz` and `.zst` behind it are unpacked."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def attached_tables(asked: Mapping[str, Path | pa.Table]) -> dict[str, pa.Table]:
    """The tables of some names. Raises ConfigError for a name that cannot be, InputError for a file."""
    for name in asked:
        if not _NAME.fullmatch(name) or name.lower() in VIEWS:
            raise ConfigError(
                f"No table can be attached as '{name}'.",
                remedy=f"Take letters, digits and _, and none of {', '.join(VIEWS)}.",
            )
    return {name: _read(given) if isinstance(given, Path) else given for name, given in asked.items()}


def _read(path: Path) -> pa.Table:
    """All rows of a file. DuckDB says what a CSV's columns are, from all of its rows."""
    plain = path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path
    reader = READERS.get(plain.suffix.lower())
    if reader is None:
        raise InputError(
            f"'{path}' does not tell by its name what it is.", remedy=f"End it in {', '.join(READERS)}."
        )
    if not path.is_file():
        raise InputError(f"There is no file '{path}'.")
    # A path is no pattern, and nothing is fetched from elsewhere.
    escaped = re.sub(r"([*?\[])", r"[\1]", str(path.resolve()))
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as connection:
        try:
            return connection.sql(reader, params=[escaped]).to_arrow_table()
        except duckdb.Error as error:
            raise InputError(f"'{path}' cannot be read: {str(error).splitlines()[0]}") from error
