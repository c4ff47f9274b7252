"""Browse a lake: list its categories, find one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from analyze.sql.connection import statement
from analyze.sql.session import Session, Values
from schemas.errors import ConfigError, NotFoundError
from schemas.quality import Quality

NAMED: Final = 5
"""Maximum number of ids that the error for an ambiguous prefix names."""


def categories(session: Session, sort: str, *, top: int, root: str | None) -> tuple[pa.Table, int]:
    """Return (table of the first `top` categories, number of all categories).

    sort: `time`, `requests`, `mean` or `c2`; root: only categories of this root type, None for all.
    """
    table = session.query(statement("browse_categories"), [root, root, sort, top])
    total = table["total"][0].as_py() if table.num_rows else 0
    return table.drop_columns(["total"]), total


def flagged(session: Session, *, root: str | None = None) -> tuple[dict[Quality, int], int]:
    """Return (quality flag -> number of requests, for flags that occur; number of all requests).

    root: only requests of this root type, None for all.
    """
    masks = session.query(statement("browse_flags"), [root, root]).to_pylist()
    counts = {flag: sum(row["requests"] for row in masks if row["quality"] & flag) for flag in Quality}
    return {flag: n for flag, n in counts.items() if n}, sum(row["requests"] for row in masks)


class Asking(Protocol):
    """Interface of a session, in this process or in a child process."""

    def query(self, text: str, values: Values = ()) -> pa.Table:
        """Run a statement with bound values, and return its rows."""


@dataclass(frozen=True, slots=True)
class StoredFlow:
    """A request as stored: its rows of FLOWS_SCHEMA and STRUCTURES_SCHEMA, and its parameters."""

    flow: dict[str, Any]
    structure: dict[str, Any]
    params: list[dict[str, Any]]


def find_flow(session: Asking, request_id: str, kind: str | None = None) -> StoredFlow:
    """Find the request with this id, or with this unique prefix of an id.

    kind: `spans` or `records`; None: spans if an id has both. Raises NotFoundError if no id or several match,
    ConfigError for an empty id.
    """
    if not request_id:
        raise ConfigError("The request id is empty.", remedy="Give an id, or the beginning of one.")
    asked = [request_id, kind, kind, request_id, 2 * (NAMED + 1)]
    found = session.query(statement("browse_flow"), asked).to_pylist()
    ids = list(dict.fromkeys(row["request_id"] for row in found))
    if not found:
        raise NotFoundError(
            f"No request '{request_id}' in this period of the lake.",
            remedy="List some with: flowdiff sql -c 'select request_id from requests limit 5'.",
        )
    if len(ids) > 1 and ids[0] != request_id:
        more = " and others" if len(ids) > NAMED else ""
        raise NotFoundError(
            f"'{request_id}' is the beginning of several ids: {', '.join(ids[:NAMED])}{more}.",
            remedy="Give more digits.",
        )
    flow = found[0]
    structure = session.query("SELECT * FROM _structures WHERE category = ?", [flow["category"]]).to_pylist()
    params = session.query(
        "SELECT position, key, num, text FROM params WHERE request_id = ? AND kind = ? ORDER BY ALL",
        [flow["request_id"], flow["kind"]],
    ).to_pylist()
    return StoredFlow(flow, structure[0], params)
