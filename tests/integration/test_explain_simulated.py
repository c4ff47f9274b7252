"""From a simulated fault to the parameter that it changed (NSDI 8.2, 8.3): all real, from import on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixtures.explained import explain_finding
from oracles.command_line import command

from analyze.explain.chosen_requests import Selection
from analyze.load import load_population
from analyze.population import Population
from analyze.refine.settings import RefineSettings
from analyze.scope import resolve
from schemas.periods import parse_period

RUNS = {
    "2026-11-16": ("postmark-large", "800"),
    "2026-11-17": ("postmark-large", "800"),
    "2026-11-18": ("postmark-large", "800", "--fault", "F1-mds-config"),
    "2026-11-19": ("iozone", "400"),
    "2026-11-20": ("iozone", "400", "--fault", "F2-small-io"),
}


def run(*arguments: str) -> None:
    done = command(*arguments)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five simulated days."""
    folder = tmp_path_factory.mktemp("simulated")
    files = []
    for seed, (day, (workload, requests, *fault)) in enumerate(RUNS.items()):
        files.append(str(folder / f"{day}.ndjson.gz"))
        run(
            "simulate", "--workload", workload, "--requests", requests, "--seed", str(seed), "--workers", "1",
            "--start", f"{day}T09:00:00Z", "--out", files[-1], *fault,
        )  # fmt: skip
    run("import", *files, "--lake", str(folder / "lake"))
    return folder / "lake"


def loaded(lake: Path, reference: str, problem: str) -> Population:
    samples = [
        (name, resolve(parse_period(day, now_ns=0), default_lake=str(lake)))
        for name, day in (("reference", reference), ("problem", problem))
    ]
    return load_population(samples, RefineSettings()).population


def of_root(population: Population, root: str, sample: int, *, new: bool | None = None) -> Selection:
    """Requests of a root type; new: only those of categories that the reference lacks, or only the others."""
    rows: dict[int, np.ndarray] = {}
    for number, category in enumerate(population.categories):
        mine = category.rows(sample)
        before = category.rows(0)
        is_new = before.start == before.stop
        if category.graph.root == root and (new is None or new == is_new):
            rows[number] = np.arange(mine.start, mine.stop)
    return Selection(rows)


def test_the_encoding_of_the_metadata_servers_writes(lake: Path) -> None:
    population = loaded(lake, "2026-11-16", "2026-11-18")
    for root in ("nfs/CREATE_CALL", "nfs/REMOVE_CALL", "nfs/WRITE_CALL"):
        mutated = of_root(population, root, 1, new=True)
        usual, before = of_root(population, root, 1, new=False), of_root(population, root, 0)
        found = explain_finding(population, mutated, usual, before)
        assert mutated.n_requests > 30
        assert found.reliable
        assert "encoding" in found.sentence
        assert "at sn/WRITE_CALL" in found.sentence
        changed = {row.key.split()[0] for row in found.attributes if row.distance > 0.6}
        assert "encoding" in changed
        # Which storage node is reached is the change itself; nothing of the request differs.
        assert changed <= {"encoding", "fault_tolerance", "stripe_bytes", "host", "reaches"}


def test_the_size_of_the_clients_writes(lake: Path) -> None:
    population = loaded(lake, "2026-11-19", "2026-11-20")
    root = "nfs/WRITE_CALL"
    mutated = of_root(population, root, 1, new=True)
    found = explain_finding(population, mutated, None, of_root(population, root, 0))
    assert found.reliable
    assert found.auc is not None
    assert found.auc > 0.99
    assert found.sentence.startswith("count <= 4096 at nfs/WRITE_CALL: ")


def test_two_days_alike_have_no_explanation(lake: Path) -> None:
    population = loaded(lake, "2026-11-16", "2026-11-17")
    roots = sorted({category.graph.root for category in population.categories})
    assert len(roots) > 4
    for root in roots:
        one, other = of_root(population, root, 1), of_root(population, root, 0)
        found = explain_finding(population, one, None, other)
        assert not found.reliable, found.sentence
