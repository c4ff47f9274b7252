"""Tables of the method `distalyze`, complete: every feature's test, every component's variables and edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.distalyze.features import quantity_of
from analyze.methods.distalyze.pipeline import DistalyzeRun
from schemas.report.columns import arrow_schema, stored

FEATURES: Final = (
    stored("root", "text", "root type; empty: all"),
    stored("log", "text", "event or state"),
    stored("component", "text", "component of the variable"),
    stored("name", "text", "what it is called there"),
    stored("measure", "text", "what of it is measured"),
    stored("quantity", "text", "unit of its values: us, share, count, value"),
    stored("feature", "text", "feature type"),
    stored("mean0", "number", "mean of the first class"),
    stored("mean1", "number", "mean of the second class"),
    stored("t", "number", "Welch's t"),
    stored("p", "number", "its p-value"),
    stored("significant", "flag", "after Bonferroni over all features of the run"),
    stored("significant_bh", "flag", "after Benjamini-Hochberg"),
)
DEPENDENCIES: Final = (
    stored("rank", "place", "component that the edge is of"),
    stored("root", "text", "root type; empty: all"),
    stored("log", "text", "event or state"),
    stored("feature", "text", "feature type"),
    stored("score", "number", "Algorithm 1's, times the root type's part of the difference"),
    stored("variable", "text", "one end; of a directed edge what happens first"),
    stored("other", "text", "the other end"),
    stored(
        "weight0",
        "number",
        "largest node that one splits in the other's tree, first class's network",
    ),
    stored("weight1", "number", "the same in the network that the component is of"),
    stored("directed", "flag", "one comes before the other in all instances"),
    stored("in_tree", "flag", "of the maximum spanning tree that the score is of"),
)


def divergence_tables(run: DistalyzeRun) -> dict[str, pa.Table]:
    """`distalyze_features`: distinct tests; `distalyze_dependencies`: edges among the variables shown."""
    return {
        "distalyze_features": pa.Table.from_pylist(list(_features(run)), schema=arrow_schema(FEATURES)),
        "distalyze_dependencies": pa.Table.from_pylist(
            list(_dependencies(run)), schema=arrow_schema(DEPENDENCIES)
        ),
    }


def _features(run: DistalyzeRun) -> Iterator[dict[str, Any]]:
    for one in run.tested:
        for log in one.logs:
            tests = log.tests
            for row, place in np.argwhere(tests.distinct).tolist():
                name, type_ = tests.names[place], tests.types[row]
                p = float(tests.p[row, place])
                yield {
                    "root": one.study.root,
                    "log": tests.log_type.value,
                    "component": name.component,
                    "name": name.what,
                    "measure": name.measure,
                    "quantity": quantity_of(type_, name.quantity).value,
                    "feature": type_.value,
                    "mean0": float(tests.mean0[row, place]),
                    "mean1": float(tests.mean1[row, place]),
                    "t": float(tests.t[row, place]),
                    "p": p,
                    "significant": p <= run.level,
                    "significant_bh": p <= run.bh_level,
                }


def _dependencies(run: DistalyzeRun) -> Iterator[dict[str, Any]]:
    for row in run.components:
        for edge in row.edges:
            yield {
                "rank": row.rank,
                "root": row.root,
                "log": row.log_type,
                "feature": row.feature_types[0],
                "score": row.score,
                "variable": row.variables[edge.src].text,
                "other": row.variables[edge.dst].text,
                "weight0": edge.weight_other,
                "weight1": edge.weight,
                "directed": edge.directed,
                "in_tree": edge.in_tree,
            }
