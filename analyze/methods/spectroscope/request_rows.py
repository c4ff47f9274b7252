"""The requests behind what paper mode found, one row each: mutations back to raw traces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from analyze.methods.spectroscope.paper import PaperResult
from analyze.population import Category, Population
from schemas.report.report_tables import REQUESTS_SCHEMA
from stitch.graph.placed import POINT


def request_rows(result: PaperResult, population: Population) -> pa.Table:
    """REQUESTS_SCHEMA by rank, mutations before precursors, then as the category has them."""
    listed = list(_listed(result))
    members = [population.categories[index] for _, _, index in listed]
    sizes = np.array([category.n_requests for category in members], dtype=np.int64)
    if not sizes.sum():
        return REQUESTS_SCHEMA.empty_table()

    def repeated(values: list[str]) -> pa.Array:
        """One value a category as one a request."""
        words = pa.array(dict.fromkeys(values))
        place = {word: code for code, word in enumerate(words.to_pylist())}
        codes = np.repeat(np.array([place[value] for value in values], np.int32), sizes)
        return pa.DictionaryArray.from_arrays(codes, words).cast(pa.string())

    samples = pa.DictionaryArray.from_arrays(
        np.concatenate([category.sample for category in members]).astype(np.int32),
        pa.array([sample.name for sample in population.samples]),
    )
    columns = [
        pa.array(np.repeat(np.array([rank for rank, _, _ in listed], np.int32), sizes)),
        repeated([role for _, role, _ in listed]),
        repeated([category.graph.key for category in members]),
        samples.cast(pa.string()),
        pa.chunked_array([category.request_id for category in members], pa.string()),
        repeated([_kind(category) for category in members]),
    ]
    return pa.Table.from_arrays(columns, schema=REQUESTS_SCHEMA)


def _listed(result: PaperResult) -> Iterator[tuple[int, str, int]]:
    """(rank, role, index of the category): every mutation; every candidate once, at its best rank."""
    seen: set[int] = set()
    for rank, mutation in enumerate(result.mutations, 1):
        yield rank, "mutation", mutation.category
        if mutation.candidates is not None:
            for index in mutation.candidates.category.tolist():
                if index not in seen:
                    seen.add(index)
                    yield rank, "precursor", index


def _kind(category: Category) -> str:
    """What the requests were recorded as: nodes of spans have a side."""
    return "records" if all(node.side == POINT for node in category.graph.nodes) else "spans"
