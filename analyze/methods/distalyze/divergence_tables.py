"""Tables of the method `distalyze`, complete: every feature's test, every component's variables and edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.distalyze.features import quantity_of
from analyze.methods.distalyze.pipeline import DistalyzeRun

_TEXT, _REAL, _WHOLE, _TRUTH = pa.string(), pa.float64(), pa.int32(), pa.bool_()

FEATURES_SCHEMA: Final = pa.schema(
    [
        ("root", _TEXT),
        ("log", _TEXT),
        ("component", _TEXT),
        ("name", _TEXT),
        ("measure", _TEXT),
        ("quantity", _TEXT),
        ("feature", _TEXT),
        ("mean0", _REAL),
        ("mean1", _REAL),
        ("t", _REAL),
        ("p", _REAL),
        ("significant", _TRUTH),
        ("significant_bh", _TRUTH),
    ]
)
DEPENDENCIES_SCHEMA: Final = pa.schema(
    [
        ("rank", _WHOLE),
        ("root", _TEXT),
        ("log", _TEXT),
        ("feature", _TEXT),
        ("score", _REAL),
        ("variable", _TEXT),
        ("other", _TEXT),
        ("weight0", _REAL),
        ("weight1", _REAL),
        ("directed", _TRUTH),
        ("in_tree", _TRUTH),
    ]
)


def divergence_tables(run: DistalyzeRun) -> dict[str, pa.Table]:
    """`distalyze_features`: distinct tests; `distalyze_dependencies`: edges among the variables shown."""
    return {
        "distalyze_features": pa.Table.from_pylist(list(_features(run)), schema=FEATURES_SCHEMA),
        "distalyze_dependencies": pa.Table.from_pylist(list(_dependencies(run)), schema=DEPENDENCIES_SCHEMA),
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
