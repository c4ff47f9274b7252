"""A comparison of real traces, as the terminal shows it and as numbers.

Online-boutique before → after-recommendation-delay: four response-time mutations at ListRecommendations.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flowdiff.__main__ import build_app

TERMINAL = {"COLUMNS": "100", "LINES": "60", "TERM": "dumb", "FORCE_COLOR": None, "TTY_COMPATIBLE": None}
EDGES_SHOWN = 3

Told = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def told(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What `flowdiff compare` prints, and its JSON report."""
    folder = tmp_path_factory.mktemp("compare")
    app, lake = build_app(["import", "compare"]), str(folder / "lake")
    traces = [
        str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz")
        for name in ("before", "after-recommendation-delay")
    ]
    imported = CliRunner().invoke(app, ["import", *traces, "--lake", lake, "--window", "1m"])
    assert imported.exit_code == 0, imported.output
    compared = CliRunner(env=TERMINAL).invoke(
        app,
        [
            *("compare", "--lake", lake, "--method", "paper", "--reference", "2022-08-23T16:59Z/2m"),
            *("--problem", "2022-08-23T15:12Z/2m", "--json", str(folder / "report.json"), "--no-save"),
        ],
        catch_exceptions=False,
    )
    assert compared.exit_code == 1, compared.output
    return compared.stdout, json.loads((folder / "report.json").read_bytes())


def rounded(value: Any) -> Any:
    """Floats to six significant digits, all the way down."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def only(row: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: row[key] for key in keys}


def mutation_summary(row: dict[str, Any]) -> dict[str, Any]:
    edges = [
        only(e, "src_label", "dst_label", "mean0_us", "mean1_us", "ks", "changed", "attribution_us")
        for e in row["edges"][:EDGES_SHOWN]
    ]
    precursors = [only(p, "category", "edits", "distance", "share") for p in row["precursors"]]
    named = only(row, "rank", "kind", "direction", "category", "root", "n_nodes", "stored")
    numbers = only(
        *(row, "before", "after", "ks", "contribution_us", "contribution_nsdi_us", "contribution_tr_us"),
        *("share_of_listed", "edges_total", "edges_changed", "displaced_us", "recoverable_us"),
    )
    return {**named, **numbers, "edges": edges, "precursors": precursors}


def test_terminal(golden: Callable[[str, str], None], told: Told) -> None:
    text, _ = told
    golden("compare-recommendation.txt", text)


def test_numbers(golden: Callable[[str, str], None], told: Told) -> None:
    _, report = told
    period = ("name", "text", "start_ns", "end_ns", "requests", "mean_us", "categories", "excluded")
    sections = {section["section"]: section for section in report["sections"]}
    mutations, categories = sections["mutations"], sections["categories"]
    totals = [key for key in mutations if key.endswith("_total")]
    assert len(report["id"]) == 16
    found = {
        **only(report, "schema_version", "preparation", "methods"),
        "samples": [only(sample, *period) for sample in report["samples"]],
        "sections": [[section["section"], section["method"]] for section in report["sections"]],
        **only(mutations, "lists", *totals),
        "mutations": [mutation_summary(row) for row in mutations["mutations"]],
        "categories": [
            [row["category"], row["before"]["count"], row["after"]["count"], row["ks"]["d"], row["roles"]]
            for row in categories["categories"]
        ],
        "graphs": {key: [graph["root"], graph["nodes_total"]] for key, graph in mutations["graphs"].items()},
        "sums": sections["sums"],
    }
    golden("compare-recommendation.json", json.dumps(rounded(found), ensure_ascii=False, indent=1) + "\n")
