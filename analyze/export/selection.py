"""Which stored categories a key names: a category of the lake, or one that a report made of several."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from analyze.load import read_stored
from analyze.scope import LakePeriod
from schemas.errors import ConfigError, NotFoundError

LIST_CATEGORIES = "List categories with `flowdiff categories`."


def named_categories(found: LakePeriod, key: str) -> pa.Array:
    """Keys of the stored categories that `key`, or a key it is the beginning of, stands for.

    A key of the lake comes first; else it is looked up in the lake's reports, whose categories are refined
    ones. Raises ConfigError for an empty key, NotFoundError where the period's windows hold no such category.
    """
    if not key:
        raise ConfigError("The category is empty.", remedy="Give its key, or the beginning of one.")
    parts = [read_stored(found, path, ["category"]) for path in found.structures]
    known = (
        pc.unique(pa.concat_tables(parts)["category"].cast(pa.string()))
        if parts
        else pa.array([], pa.string())
    )
    own = known.filter(pc.starts_with(known, key))
    if len(own):
        return own
    reported = _behind_reports(found, key)
    if len(reported) == 0:
        raise NotFoundError(
            f"No category '{key}' in {found.period.text}, nor in a report of this lake.",
            remedy=LIST_CATEGORIES,
        )
    here = reported.filter(pc.is_in(reported, value_set=known))
    if len(here) == 0:
        raise NotFoundError(
            f"Category '{key}' of a report is stored under keys that do not occur in {found.period.text}.",
            remedy="Give a period of that report.",
        )
    return here


def _behind_reports(found: LakePeriod, key: str) -> pa.Array:
    """Stored keys of the refined categories that begin with `key`, over all reports of a lake."""
    parts = []
    # The table `categories` of a report has them all: its mutations, their precursors, and the rest.
    for path in sorted((found.root / "reports").glob("*/categories.parquet")):
        rows = read_stored(found, path, ["category", "stored"])
        parts.append(rows.filter(pc.starts_with(rows["category"], key))["stored"].combine_chunks().flatten())
    return pc.unique(pa.concat_arrays(parts)) if parts else pa.array([], pa.string())
