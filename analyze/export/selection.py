"""Select flows: those of a stored category, or the requests a report lists for a refined one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.load import read_stored
from analyze.scope import LakePeriod
from schemas.errors import ConfigError, NotFoundError

LIST_CATEGORIES: Final = "List categories with `flowdiff categories`."
_REQUESTS, _CATEGORIES = "requests.parquet", "categories.parquet"


@dataclass(frozen=True, slots=True)
class AskedFlows:
    """What an export is asked for."""

    category: str | None = None
    """A key, or the beginning of one; None: all."""
    report: str | None = None
    """Id of a report of the lake, the beginning of one, or the folder of any report."""
    sample: str | None = None
    """Only requests of this sample of the report: `reference`, `problem`."""


@dataclass(frozen=True, slots=True)
class SelectedFlows:
    """Flows to take: of some stored categories, or requests one by one."""

    what: str
    """How a message names them: `of category 'ab12'`."""
    categories: pa.Array | None = None
    """Stored keys."""
    requests: Mapping[str, pa.Array] | None = None
    """Kind -> request ids."""

    @property
    def named(self) -> int | None:
        """How many requests were named one by one; None where categories were."""
        return None if self.requests is None else sum(map(len, self.requests.values()))

    def of(self, flows: pa.Table) -> pa.Table:
        """Those of `flows` that are meant."""
        if self.requests is None:
            return flows.filter(pc.is_in(flows["category"].cast(pa.string()), value_set=self.categories))
        kind = flows["kind"].cast(pa.string())
        wanted = pa.array(np.zeros(flows.num_rows, np.bool_))
        for name, ids in self.requests.items():
            mine = pc.and_(pc.equal(kind, name), pc.is_in(flows["request_id"], value_set=ids))
            wanted = pc.or_(wanted, mine)
        return flows.filter(wanted)


def selection(found: LakePeriod, asked: AskedFlows) -> SelectedFlows | None:
    """The flows that are asked for; None: all of the period.

    With a report: the requests of its table that lie in the category and sample. Without one, a key of the
    lake comes first; else it is a refined key, looked up in all reports of the lake. Raises ConfigError for
    an empty key, an ambiguous report, or a sample without a report, NotFoundError where there is no such
    report, sample or category.
    """
    if asked.category == "":
        raise ConfigError("The category is empty.", remedy="Give its key, or the beginning of one.")
    if asked.report is not None:
        return _of_reports(found, [_report_folder(found, asked.report)], asked)
    if asked.sample is not None:
        raise ConfigError("Samples are those of a report.", remedy="Give --report, too.")
    if asked.category is None:
        return None
    stored = _stored(found, asked.category)
    if len(stored):
        return SelectedFlows(_of(asked), categories=stored)
    return _of_reports(found, found.report_folders(), asked)


def _stored(found: LakePeriod, key: str) -> pa.Array:
    """Keys of the lake's categories that begin with `key`."""
    parts = [read_stored(found, path, ["category"]) for path in found.structures]
    if not parts:
        return pa.array([], pa.string())
    known = pc.unique(pa.concat_tables(parts)["category"].cast(pa.string()))
    return known.filter(pc.starts_with(known, key))


def _report_folder(found: LakePeriod, report: str) -> Path:
    """Folder of a report: `report` is a path, an id, or the beginning of one."""
    if not report:
        raise ConfigError("The report is empty.", remedy="Give its id, or the beginning of one.")
    if len(Path(report).parts) > 1 and Path(report).is_dir():
        return Path(report)
    matching = [folder for folder in found.report_folders() if folder.name.startswith(report)]
    if len(matching) > 1:
        raise ConfigError(
            f"{len(matching)} reports begin with '{report}': {', '.join(f.name for f in matching[:3])}.",
            remedy="Give more of the id.",
        )
    if not matching:
        raise NotFoundError(
            f"No report '{report}' in lake {found.root.name}.",
            remedy="Give the name of a folder under reports/ of the lake, or the folder of another lake's.",
        )
    return matching[0]


def _of_reports(found: LakePeriod, folders: list[Path], asked: AskedFlows) -> SelectedFlows:
    """Requests of a category, a sample or all, over the tables of some reports."""
    listed = [rows for folder in folders for rows in _rows(found, folder / _REQUESTS, asked.category)]
    if not any(rows.num_rows for rows in listed):
        raise _not_listed(found, folders, asked)
    table = pa.concat_tables(rows.select(["sample", "request_id", "kind"]) for rows in listed)
    taken = table
    if asked.sample is not None:
        taken = table.filter(pc.equal(table["sample"], asked.sample))
    if not taken.num_rows:
        raise NotFoundError(
            f"No request {_of(asked)} is of sample '{asked.sample}'.",
            remedy=f"Samples are: {', '.join(sorted(pc.unique(table['sample']).to_pylist()))}.",
        )
    requests = {
        kind: pc.unique(taken.filter(pc.equal(taken["kind"], kind))["request_id"])
        for kind in pc.unique(taken["kind"]).to_pylist()
    }
    return SelectedFlows(_of(asked), requests=requests)


def _rows(found: LakePeriod, path: Path, key: str | None) -> list[pa.Table]:
    """Rows of a report's table whose category begins with `key`; no table where the report has none."""
    found.fetch([path])
    if not path.is_file():
        return []
    table = read_stored(found, path)
    return [table if key is None else table.filter(pc.starts_with(table["category"], key))]


def _of(asked: AskedFlows) -> str:
    """Words for a message."""
    words = [
        None if value is None else f"of {name} '{value}'"
        for name, value in (("category", asked.category), ("report", asked.report))
    ]
    return " ".join(word for word in words if word is not None)


def _not_listed(found: LakePeriod, folders: list[Path], asked: AskedFlows) -> NotFoundError:
    """Why no report names a request of a category: there is none, or nothing changed in it."""
    stored = [row for folder in folders for row in _rows(found, folder / _CATEGORIES, asked.category)]
    keys = sorted({key for rows in stored for keys in rows["stored"].to_pylist() for key in keys})
    if asked.category is None:
        return NotFoundError(f"No request is listed {_of(asked)}.", remedy="Export a period.")
    if not keys:
        where = "" if asked.report is not None else f" in {found.period.text}, nor in a report of this lake"
        report = "" if asked.report is None else f" in report '{asked.report}'"
        return NotFoundError(f"No category '{asked.category}'{report}{where}.", remedy=LIST_CATEGORIES)
    return NotFoundError(
        f"Category '{asked.category}' is neither a mutation nor a precursor of a report that lists requests.",
        remedy=f"Export the stored categories that it is part of: {', '.join(keys[:3])}"
        + (f" and {len(keys) - 3} more." if len(keys) > 3 else "."),
    )
