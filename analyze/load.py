"""Load periods of a lake, through its manifest, into a population: the only module that reads flows.

Files are listed by the manifest, never globbed. Wide columns are read by pyarrow, which keeps hosts as
dictionary codes; DuckDB evaluates filters, for which it reads narrow columns only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from analyze.population import PARAMS_AS_CODES, PARAMS_AS_TEXT, FoldedNames, Population, Sample
from analyze.refine.name_folding import FoldedStructures, Folding, NameFolder, distinct_names
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, LakePeriods, notes, parts_of
from analyze.verify import verify
from schemas.arrays import I8
from schemas.errors import ConfigError, PeriodError
from schemas.lake import STORED_STRUCTURES_SCHEMA
from schemas.periods import FLOW_KEYS
from schemas.ranges import ranges_text
from stitch.columnar.runs import whole
from stitch.lake.encoding import read_rows, read_structures
from stitch.lake.structure_form import unnested

_FLOW_COLUMNS: Final = [
    "request_id",
    "start_ns",
    "category",
    "offset_ns",
    "host",
    "weight",
    "weight_known",
    "status",
    "error_position",
    "error_class",
    "quality",
]

_CODED_COLUMNS: Final = ["category", "host.list.element", "status", "error_class.list.element"]
_PARAM_TEXTS: Final = ("request_id", "kind", "key", "text")
MOST_SAMPLES: Final = 256
"""Maximum number of samples loaded together: a sample index is stored in one byte.

To search many windows for a change, load them as one sample and distinguish windows by `start_ns`.
"""


class Loaded(NamedTuple):
    """Populations of samples that were refined together, so that equal graphs have equal keys in both."""

    population: Population
    history: Population | None
    """Population of the history's samples; None if no history was requested."""


def load_population(
    samples: Sequence[tuple[str, LakePeriods]],
    settings: RefineSettings,
    *,
    history: Sequence[tuple[str, LakePeriods]] = (),
    folded: Sequence[FoldedNames] = (),
) -> Loaded:
    """Load the requests of samples and refine them together with the samples of a history.

    samples, history: (name, period or periods) of each sample. Samples may be in different lakes, and may
    overlap (see `refuse_overlap`); the periods of one sample must not overlap. History samples without
    requests are left out. folded: folding of names (ids replaced by `#`) that was found for another
    population, to be applied here as well. Raises PeriodError if a sample has no request, ConfigError for
    more than MOST_SAMPLES samples, LakeError if files are inconsistent.
    """
    if (n_asked := len(samples) + len(history)) > MOST_SAMPLES:
        raise ConfigError(f"{n_asked} samples are too many; {MOST_SAMPLES} is the most.")
    asked: list[tuple[str, tuple[LakePeriod, ...]]] = []
    tables = []
    structures = FoldedStructures(NameFolder(settings.max_names, folded))
    seen: set[Path] = set()
    for place, (name, found) in enumerate((*samples, *history)):
        parts = parts_of(found)
        for part in parts:
            part.fetch((*part.flows, *part.structures))
        try:
            flows = _read_sample(parts)
        except PeriodError:
            if place < len(samples):
                raise
            continue  # no request of this time passes the filter
        tables.append(
            flows.append_column("sample", pa.array(np.full(flows.num_rows, len(asked), dtype=np.uint8)))
        )
        asked.append((name, parts))
        for part in parts:
            for path in part.structures:
                if path not in seen:
                    seen.add(path)
                    structures.add(read_stored(part, path, STORED_STRUCTURES_SCHEMA.names))
    if history and len(asked) == len(samples):
        raise PeriodError("The history holds no request.", remedy="Give --history other times.")
    stored, keys = structures.settled()
    flows = pa.concat_tables(tables).unify_dictionaries()
    del tables  # their dictionaries name every structure
    folding = Folding()
    if keys is not None:
        at = flows.column_names.index("category")
        flows = flows.set_column(at, "category", keys.recoded(flows["category"]))
        folding = keys.folding
        del keys
    refined = refine(
        flows,
        pa.concat_tables([unnested(table) for table in stored]),
        settings,
        told_samples(asked),
        asked[0][1][0].window_ns,
        len(samples),
    )
    compared = [part for _, parts in asked[: len(samples)] for part in parts]
    population = replace(
        refined,
        notes=(*(f"Lake {note}" for note in notes(compared)), *refined.notes),
        folded=folding.folds,
        params=partial(_params_of, [parts for _, parts in asked]),
        stored_operations=partial(_operations_of, [part for _, parts in asked for part in parts], folding),
    )
    if not history:
        return Loaded(population, None)
    n = len(samples)
    return Loaded(population.of_samples(0, n), population.of_samples(n, len(asked)))


def _read_sample(parts: Sequence[LakePeriod]) -> pa.Table:
    """Read the flows of a sample's periods that match the filter. Raises PeriodError, with the cause, if no
    flow does."""
    tables = []
    refused: PeriodError | None = None
    for part in parts:
        try:
            tables.append(read_flows(part))
        except PeriodError as error:  # no request of this part has the parameter that the filter asks for
            refused = error
    if any(table.num_rows for table in tables):
        return pa.concat_tables(tables)
    if refused is not None:
        raise refused
    raise no_request(parts)


def no_request(parts: Sequence[LakePeriod]) -> PeriodError:
    """Error to raise for a sample in which no request matches the filter. parts: periods of the sample."""
    from analyze.sql.filters import unknown_name

    where = parts[0].period.where
    filtered = "" if where is None else f" where {where.text}"
    return PeriodError(
        f"Period {ranges_text([part.period for part in parts])}{filtered} holds no request.",
        remedy=unknown_name(parts[0]),
    )


def told_samples(asked: Sequence[tuple[str, Sequence[LakePeriod]]]) -> tuple[Sample, ...]:
    """Make a `Sample` for each (name, periods). If there are several lakes, `Sample.text` names the lake.

    The name of a lake is the last part of its path, or the whole path if two lakes share the last part.
    """
    lakes = list(dict.fromkeys(part.lake for _, parts in asked for part in parts))
    ends = [lake.rstrip("/").rpartition("/")[2] for lake in lakes]
    shown = dict(zip(lakes, ends if len({*ends}) == len(ends) else lakes, strict=True))
    samples = []
    for name, parts in asked:
        sample = sample_of(name, parts)
        if len(lakes) > 1:
            where = ", ".join(dict.fromkeys(shown[part.lake] for part in parts))
            sample = replace(sample, text=f"{where}@{sample.text}")
        samples.append(sample)
    return tuple(samples)


def sample_of(name: str, parts: Sequence[LakePeriod]) -> Sample:
    """`Sample` called `name` that consists of several periods, all with the same filter."""
    periods = [part.period for part in parts]
    where = periods[0].where
    ordered = sorted(parts, key=lambda part: (part.period.start_ns, part.period.end_ns))
    ranges = tuple((part.period.start_ns, part.period.end_ns) for part in ordered)
    return Sample(
        name,
        ranges_text(periods),
        ranges[0][0],
        max(end for _, end in ranges),
        "" if where is None else where.text,
        ranges,
        tuple(part.recorded for part in ordered),
    )


def _params_of(
    samples: Sequence[LakePeriods],
    sample: int,
    /,
    *,
    keys: Sequence[str] | None = None,
    requests: pa.Array | None = None,
    as_codes: bool = False,
) -> pa.Table:
    """Read parameters of a loaded sample; see `ReadParams`. samples: periods of each sample; sample: index of
    the sample to read."""
    return read_params(samples[sample], keys=keys, requests=requests, as_codes=as_codes)


def _operations_of(
    periods: Sequence[LakePeriod], folding: Folding, keys: Sequence[str], /
) -> Mapping[str, tuple[str, ...]]:
    """Key of a stored structure -> operations of its nodes; see `Population.stored_operations`.

    Reads files of the periods until every key is found."""
    known: dict[str, tuple[str, ...]] = {}
    for found, path in ((period, path) for period in periods for path in period.structures):
        open_keys = [key for key in keys if key not in known]
        if not open_keys:
            break
        table = read_stored_structures(found, path, ["category", "nodes"], pa.array(open_keys, pa.string()))
        nodes = whole(table["nodes"])
        ends = nodes.offsets.to_numpy() - nodes.offsets[0].as_py()
        names = distinct_names(nodes.flatten())
        word = ["/".join(name[:2]) for name in folding.names(names.distinct)]
        words = [word[at] for at in names.code.tolist()]
        for number, key in enumerate(table["category"].to_pylist()):
            known.setdefault(key, tuple(words[ends[number] : ends[number + 1]]))
    return known


def read_params(
    found: LakePeriods,
    *,
    keys: Sequence[str] | None = None,
    requests: pa.Array | None = None,
    as_codes: bool = False,
) -> pa.Table:
    """Read the parameters of requests in the windows that the periods overlap, file by file.

    keys: names of parameters to read, None: all; requests: ids of requests to read, None: all. as_codes:
    return only the columns of PARAMS_AS_CODES, with texts as dictionaries. Row groups without a wanted key or
    request are skipped. See also `ReadParams`. Raises LakeError if a file cannot be read.
    """
    among: dict[str, pa.Array] = {}
    if keys is not None:
        among["key"] = pa.array(keys, pa.string())
    if requests is not None:
        among["request_id"] = requests
    # Two ranges may lie in one window: its file is read once.
    files = {path: part for part in parts_of(found) for path in part.params}
    for period in parts_of(found):
        period.fetch(period.params)
    schema = PARAMS_AS_CODES if as_codes else PARAMS_AS_TEXT
    # A filter looks at the words of a dictionary once, and hardly any row is left to be made a text.
    texts = _PARAM_TEXTS if as_codes or among else ()
    parts = [
        read_stored(part, path, schema.names, as_codes=texts, among=among or None).cast(schema)
        for path, part in files.items()
    ]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def read_stored(
    found: LakePeriod,
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    as_codes: Sequence[str] = (),
    among: Mapping[str, pa.Array] | None = None,
    started: tuple[int, int] | None = None,
) -> pa.Table:
    """Read columns and rows of a Parquet file of a lake.

    columns: names of columns, None: all. as_codes: Parquet column paths to read as dictionaries instead of
    text. among: column -> allowed texts, other rows are left out; None: all rows. started: range of
    `start_ns`, as in `read_rows`; None: all rows. Raises LakeError if the file is missing, cut or damaged.
    """
    found.fetch([path])
    return read_rows(
        path,
        columns,
        lake=found.lake,
        name=found.name_of(path),
        as_codes=as_codes,
        among=among,
        started=started,
    )


def read_stored_structures(
    found: LakePeriod,
    path: Path,
    columns: Sequence[str] | None = None,
    categories: pa.Array | None = None,
) -> pa.Table:
    """Read a file of structures. columns: names of columns of STRUCTURES_SCHEMA; categories: keys of
    structures; None: all. Raises LakeError if the file is missing, cut or damaged."""
    found.fetch([path])
    return read_structures(path, columns, lake=found.lake, name=found.name_of(path), categories=categories)


def read_flows(found: LakePeriod) -> pa.Table:
    """Read the flows of a period that match its filter, with the columns that `analyze.refine` needs, in the
    order of the files."""
    files = read_flow_files(found, _FLOW_COLUMNS, as_codes=_CODED_COLUMNS)
    return pa.concat_tables([flows for _, flows in files])


def read_flow_files(
    found: LakePeriod, columns: Sequence[str], *, as_codes: Sequence[str] = ()
) -> Iterator[tuple[Path, pa.Table]]:
    """Yield (path of a file, flows in the file that lie in the period and match the period's filter).

    columns: names of columns, which must include `start_ns`. as_codes: Parquet column paths to be read as
    dictionaries instead of text.
    """
    found.fetch(found.flows)
    rows = _matching_rows(found)
    # Of a part of a window no other rows are held; a filter counts all of them.
    part = rows is None and not found.has_whole_windows
    started = (found.period.start_ns, found.period.end_ns) if part else None
    for path in found.flows:
        table = read_stored(found, path, columns, as_codes=as_codes, started=started)
        start = table["start_ns"].to_numpy()
        inside = (start >= found.period.start_ns) & (start < found.period.end_ns)
        if rows is not None:
            matching = np.zeros(table.num_rows, dtype=np.bool_)
            matching[rows.get(str(path), [])] = True
            inside &= matching
        yield path, table if inside.all() else table.filter(pa.array(inside))


def _matching_rows(found: LakePeriod) -> dict[str, I8] | None:
    """Path of a flow file -> int64[n] row numbers of the flows that match the period's filter; None without a
    filter. Raises PeriodError if the filter names an unknown key."""
    where = found.period.where
    if where is None:
        return None
    # DuckDB is imported for filters only: that takes a tenth of a second.
    from analyze.sql.connection import arrays, statement
    from analyze.sql.filters import filter_terms, refuse_unknown_keys

    terms = filter_terms(where)
    if terms.uses_params and not found.params:
        raise PeriodError(
            f'Filter "{where.text}" asks for a parameter, and no request of these windows has any.',
            remedy=f"Filter by {', '.join(FLOW_KEYS)}.",
        )
    tables = {"flows": found.flows, "structures": found.structures, "params": found.params}
    lists = {name: [str(path) for path in paths] for name, paths in tables.items()}
    sql = statement("matching_flows").replace("/*terms*/", " AND ".join(terms.text))
    files = list(chain.from_iterable(tables.values()))
    verify(found, files)
    matches = arrays(found, files, sql, {**lists, **terms.values})
    if len(matches["row"]) == 0:
        refuse_unknown_keys(found)
    names = matches["filename"].astype(str)
    numbers: I8 = matches["row"].astype(np.int64)
    cuts = np.flatnonzero(names[1:] != names[:-1]) + 1
    return {str(names[part[0]]): numbers[part] for part in np.split(np.arange(len(names)), cuts) if len(part)}
