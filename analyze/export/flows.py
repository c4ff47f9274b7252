r"""Export the flows of a period, window file by window file, so that memory stays bounded.

DOT is written one graph after another, as the released Spectroscope reads it:

# <request>  R: <response> usecs RT: 0.000000 usecs
Digraph G {
<request>.<node> [label="<host>__<component>__<point>\nDEFAULT"]
<request>.<node> -> <request>.<node> [label="R: <latency> us"]
}

and an empty line: a reader that finds none between two graphs assumes that every request begins at byte 0.

Labels contain only A-Z, a-z, 0-9 and `_`, without loss of information. Letters, digits and single underscores
inside a part are kept; `Z` begins an escape for anything else, so that different names never get one label
and every label can be decoded (as `tests/oracles/dot_reader.py` does):

    ZZ      the letter Z
    Z2f     a byte of UTF-8, two lower-case hex digits: here `/`
    ZL      begin of the node's semantic label
    ZS, ZE  the start, the end of a span (last in a label)
    ZU      an unrecorded host (the whole part)

`_` is escaped as a byte at the begin or end of a part and beside another `_`: `__` is then always the border
of two parts.

Flows are selected by a stored category, or by a report's list of requests for a refined category.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.export.events import EventForm, events_of_flows
from analyze.load import read_flow_files, read_stored, read_stored_structures
from analyze.scope import LakePeriod
from analyze.sql.filters import unknown_name
from ingest.codecs.native.encode_native import native_lines
from ingest.codecs.otlp.encode_otlp import otlp_json_lines
from schemas.arrays import I8
from schemas.errors import ConfigError, NotFoundError
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, RECORDS, SPANS
from stitch.graph.placed import END, POINT, START

_REQUEST: Final = "\0"
"""Placeholder, in a template, for the number of the request; a character that no label can contain."""

_UNKNOWN_HOST: Final = "ZU"
_SEMANTIC: Final = "ZL"
_SIDE: Final = {POINT: "", START: "ZS", END: "ZE"}

_ODD: Final = re.compile(r"Z|[^A-Za-z0-9_]|(?<![^_])_|_(?![^_])")


@dataclass(frozen=True, slots=True)
class _Form:
    """Template of the DOT graphs of one category."""

    text: str
    """Format string with placeholders for the request's number, the response time, a host per node, and a
    latency per edge."""
    edges: I8
    """int64[edges, 2]: (src, dst) node indices of each edge."""


def dot_graphs(
    flows: pa.Table, structures: Mapping[str, Mapping[str, Any]], *, first: int = 1
) -> Iterator[str]:
    """Yield a DOT graph for each flow with an edge, in the order of `flows` (FLOWS_SCHEMA), numbered from
    `first`.

    `structures`: category -> its row (STRUCTURES_SCHEMA as a dict). Deferred nodes are part of the graph, as
    in the original's input. Edges are sorted by (dst, src): the first one begins at the root, which the
    original requires. A flow with a single node is left out: the original fails on a graph without edges.
    Times are written in µs with three decimals, negative ones (clock skew) as 0. O(nodes + edges).
    """
    forms: dict[str, _Form | None] = {}
    known_host = cache(host_word)
    rows = zip(
        flows["category"].to_pylist(),
        flows["response_ns"].to_pylist(),
        (row.values.to_numpy() for row in flows["offset_ns"]),
        flows["host"].to_pylist(),
        strict=True,
    )
    number = first
    for category, response_ns, offsets, hosts in rows:
        if category not in forms:
            forms[category] = _form(structures[category])
        form = forms[category]
        if form is None:
            continue
        latencies = np.maximum(offsets[form.edges[:, 1]] - offsets[form.edges[:, 0]], 0) / 1e3
        graph = form.text % (number, max(response_ns, 0) / 1e3, *map(known_host, hosts), *latencies.tolist())
        yield graph.replace(_REQUEST, str(number))
        number += 1


def _form(structure: Mapping[str, Any]) -> _Form | None:
    """Make the template of a category's DOT graphs; None if the structure has no edge."""
    pairs = sorted(((edge["src"], edge["dst"]) for edge in structure["in_edges"]), key=lambda e: (e[1], e[0]))
    if not pairs:
        return None
    labels = [
        f"{word(node['component'])}__{point_word(node['point'], node['label'], node['side'])}"
        for node in structure["nodes"]
    ]
    lines = ["# %d  R: %.6f usecs RT: 0.000000 usecs", "Digraph G {"]
    lines += [
        f'{_REQUEST}.{position} [label="%s__{label}\\nDEFAULT"]' for position, label in enumerate(labels, 1)
    ]
    lines += [f'{_REQUEST}.{src + 1} -> {_REQUEST}.{dst + 1} [label="R: %.6f us"]' for src, dst in pairs]
    return _Form("\n".join([*lines, "}", "", ""]), np.array(pairs, dtype=np.int64))


def word(name: str) -> str:
    """Encode a name as one part of a DOT label, by the rules in the module docstring."""
    return _ODD.sub(_written, name)


def _written(odd: re.Match[str]) -> str:
    char = odd[0]
    return "ZZ" if char == "Z" else "".join(f"Z{byte:02x}" for byte in char.encode())


def host_word(host: str | None) -> str:
    """Encode a host as the first part of a DOT label; None (not recorded) as `ZU`."""
    return _UNKNOWN_HOST if host is None else word(host)


def point_word(point: str, label: str | None, side: int) -> str:
    """Encode a trace point as the last part of a DOT label, with its semantic label and the side of its
    span."""
    semantic = "" if label is None else _SEMANTIC + word(label)
    return word(point) + semantic + _SIDE[side]


LIST_CATEGORIES: Final = "List categories with `flowdiff categories`."
_REQUESTS, _CATEGORIES = "requests.parquet", "categories.parquet"


@dataclass(frozen=True, slots=True)
class AskedFlows:
    """Filters of an export that name the flows to write; if all are None, every flow of the period is
    written."""

    category: str | None = None
    """Key of a category, or a prefix of the key; None for all categories."""
    report: str | None = None
    """Report whose listed requests are exported: its id in the lake, a prefix of the id, or the path of its
    folder; None for none."""
    sample: str | None = None
    """Sample of the report whose requests are exported, `reference` or `problem`; None for all samples."""


@dataclass(frozen=True, slots=True)
class SelectedFlows:
    """Flows to export, selected by stored category or by request id."""

    what: str
    """Text that describes the selection in messages, e.g. `of category 'ab12'`."""
    categories: pa.Array | None = None
    """Keys of the selected stored categories; None if requests are selected by id."""
    requests: Mapping[str, pa.Array] | None = None
    """Kind of flow (spans or records) -> ids of the selected requests; None if categories are selected."""

    @property
    def named(self) -> int | None:
        """Number of requests selected by id; None if flows are selected by category."""
        return None if self.requests is None else sum(map(len, self.requests.values()))

    def of(self, flows: pa.Table) -> pa.Table:
        """Rows of `flows` that belong to this selection."""
        if self.requests is None:
            return flows.filter(pc.is_in(flows["category"].cast(pa.string()), value_set=self.categories))
        kind = flows["kind"].cast(pa.string())
        wanted = pa.array(np.zeros(flows.num_rows, np.bool_))
        for name, ids in self.requests.items():
            mine = pc.and_(pc.equal(kind, name), pc.is_in(flows["request_id"], value_set=ids))
            wanted = pc.or_(wanted, mine)
        return flows.filter(wanted)


def selection(found: LakePeriod, asked: AskedFlows) -> SelectedFlows | None:
    """Resolve an export request to a selection of flows; None: all flows of the period.

    With a report, the requests in its table that have the category and sample are selected. Without one, the
    key is looked up among the lake's stored categories, then as a refined category in all reports of the
    lake. Raises ConfigError for an empty key, an ambiguous report, or a sample without a report,
    NotFoundError if there is no such report, sample or category.
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
    """Keys of the lake's stored categories that begin with `key`."""
    parts = [read_stored(found, path, ["category"]) for path in found.structures]
    if not parts:
        return pa.array([], pa.string())
    known = pc.unique(pa.concat_tables(parts)["category"].cast(pa.string()))
    return known.filter(pc.starts_with(known, key))


def _report_folder(found: LakePeriod, report: str) -> Path:
    """Find the folder of a report: `report` is a path, an id, or a prefix of an id. Raises ConfigError if it
    is empty or ambiguous, NotFoundError if there is none."""
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
    """Select the requests of `asked.category` and `asked.sample` (None: all) that the tables of reports
    list."""
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
    """Rows of a report's table whose category begins with `key` (None: all rows); empty if the report has no
    such table."""
    found.fetch([path])
    if not path.is_file():
        return []
    table = read_stored(found, path)
    return [table if key is None else table.filter(pc.starts_with(table["category"], key))]


def _of(asked: AskedFlows) -> str:
    """Text that names the filters of an export, for messages: `of category 'ab12' of report 'f00'`."""
    words = [
        None if value is None else f"of {name} '{value}'"
        for name, value in (("category", asked.category), ("report", asked.report))
    ]
    return " ".join(word for word in words if word is not None)


def _not_listed(found: LakePeriod, folders: list[Path], asked: AskedFlows) -> NotFoundError:
    """Make the error for a category of which no report lists requests: the category is unknown, or did not
    change."""
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


BATCH_FLOWS: Final = 20_000
"""Maximum number of flows in a batch: with 100 nodes each about 100 MB of events."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Numbers of flows that an export wrote and left out."""

    flows: int
    without_edge: int = 0
    """Number of flows with a single node, left out because DOT graphs without an edge cannot be read."""
    not_here: int = 0
    """Number of requests that a report lists but that are not in this lake and period."""


@dataclass(frozen=True, slots=True)
class _Batch:
    flows: pa.Table
    structures: dict[str, dict[str, Any]]
    params: pa.Table


def export_dot(found: LakePeriod, asked: AskedFlows, out: BinaryIO) -> Exported:
    """Write flows as DOT graphs, one after another, numbered from 1.

    Raises NotFoundError if the period has no wanted flow, and the errors of `selection`; `export_otlp` and
    `export_native` raise the same.
    """
    wanted = selection(found, asked)
    matched = written = 0
    for batch in _batches(found, wanted, with_params=False):
        for graph in dot_graphs(batch.flows, batch.structures, first=written + 1):
            out.write(graph.encode())
            written += 1
        matched += batch.flows.num_rows
    return Exported(written, matched - written, _missing(wanted, matched))


def export_otlp(found: LakePeriod, asked: AskedFlows, out: BinaryIO) -> Exported:
    """Write flows as OTLP/JSON, one ExportTraceServiceRequest per line.

    Raises the same errors as `export_dot`.
    """
    return _export_events(found, asked, out, EventForm.SPANS)


def export_native(found: LakePeriod, asked: AskedFlows, out: BinaryIO) -> Exported:
    """Write flows as native records in NDJSON, with happens-before as explicit `parents`. Raises as
    `export_dot`."""
    return _export_events(found, asked, out, EventForm.RECORDS)


def _export_events(found: LakePeriod, asked: AskedFlows, out: BinaryIO, form: EventForm) -> Exported:
    encode = otlp_json_lines if form is EventForm.SPANS else native_lines
    wanted = selection(found, asked)
    written = 0
    both_kinds = _ids_of_both_kinds(found)
    for batch in _batches(found, wanted, with_params=True):
        events = events_of_flows(batch.flows, batch.structures, batch.params, form, both_kinds)
        # Events of one request together, in time order: readable, and a reader buffers few spans.
        events = events.sort_by([("request_id", "ascending"), ("ts_ns", "ascending"), ("id", "ascending")])
        for line in encode(events):
            out.write(line + b"\n")
        written += batch.flows.num_rows
    return Exported(written, not_here=_missing(wanted, written))


def _missing(wanted: SelectedFlows | None, matched: int) -> int:
    named = None if wanted is None else wanted.named
    return 0 if named is None else max(named - matched, 0)


def _batches(found: LakePeriod, wanted: SelectedFlows | None, *, with_params: bool) -> Iterator[_Batch]:
    """Yield flows with their structures and parameters, at most BATCH_FLOWS of one file at a time. Raises
    NotFoundError if there are none."""
    matched = 0
    for path, stored in read_flow_files(found, FLOWS_SCHEMA.names):
        window = path.parent.name
        flows = stored if wanted is None else wanted.of(stored)
        if flows.num_rows == 0:
            continue
        matched += flows.num_rows
        structures = _structures_of(found, window)
        for start in range(0, flows.num_rows, BATCH_FLOWS):
            part = flows.slice(start, BATCH_FLOWS)
            params = (
                _params_of(found, window, part["request_id"]) if with_params else PARAMS_SCHEMA.empty_table()
            )
            yield _Batch(part, structures, params)
    if matched == 0:
        of = "" if wanted is None else f" {wanted.what}"
        where = "" if found.period.where is None else f" where {found.period.where.text}"
        raise NotFoundError(
            f"No flow{of} in {found.period.text}{where}.", remedy=unknown_name(found) or LIST_CATEGORIES
        )


def _ids_of_both_kinds(found: LakePeriod) -> pa.Array:
    """Ids of requests that have both a flow of spans and a flow of activity records in the period; the filter
    is ignored."""
    spans, records = (
        pa.chunked_array(
            [
                chunk
                for path in found.flows
                for chunk in read_stored(found, path, ["request_id"], among={"kind": pa.array([kind])})[
                    "request_id"
                ].chunks
            ],
            pa.string(),
        )
        for kind in (SPANS, RECORDS)
    )
    both: pa.Array = spans.filter(pc.is_in(spans, value_set=records)).combine_chunks()
    return both


def _structures_of(found: LakePeriod, window: str) -> dict[str, dict[str, Any]]:
    """Structures in the files of a window's folder: key of the category -> row as a dict.

    Complete for all flows of that folder.
    """
    paths = [path for path in found.structures if path.parent.name == window]
    return {row["category"]: row for path in paths for row in read_stored_structures(found, path).to_pylist()}


def _params_of(found: LakePeriod, window: str, request_ids: pa.ChunkedArray) -> pa.Table:
    parts = [
        read_stored(found, path, among={"request_id": request_ids.combine_chunks()})
        for path in found.params
        if path.parent.name == window
    ]
    return pa.concat_tables(parts).unify_dictionaries() if parts else PARAMS_SCHEMA.empty_table()
