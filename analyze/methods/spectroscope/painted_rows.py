"""The table `painted`: the edges of every category as `released` colours them (ALGORITHMS B.1b)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from analyze.methods.spectroscope.paper import PaperResult
from analyze.population import Population
from schemas.report.report_tables import PAINTED_SCHEMA


def painted_table(result: PaperResult, population: Population) -> pa.Table:
    """PAINTED_SCHEMA, one row an edge of every category, mutated or not, in the population's order.

    Edges of one name in a category share their test. Empty unless the variant is `released`.
    """
    parts = []
    for category, tests in zip(population.categories, result.painted, strict=bool(result.painted)):
        graph = category.graph
        labels = np.array(graph.labels, dtype=object)
        columns = {
            "category": [graph.key] * len(graph.edges),
            "src": graph.edges[:, 0],
            "dst": graph.edges[:, 1],
            "src_label": labels[graph.edges[:, 0]],
            "dst_label": labels[graph.edges[:, 1]],
            "ks_n0": tests.n0,
            "ks_n1": tests.n1,
            "ks_d": tests.d,
            "ks_p": tests.p,
            "changed": tests.changed,
        }
        arrays = [
            pa.array(columns[field.name], type=field.type, from_pandas=True) for field in PAINTED_SCHEMA
        ]
        parts.append(pa.Table.from_arrays(arrays, schema=PAINTED_SCHEMA))
    return pa.concat_tables(parts) if parts else PAINTED_SCHEMA.empty_table()
