"""Whether the most coloured node of the first overlay is where the fault is: simulated faults, recordings.

    PYTHONPATH=tests python -m evaluation.clustered --seeds 10
    PYTHONPATH=tests python -m evaluation.clustered --recordings DIR [--lakes DIR]

The paper's two kinds of change (HOT §2.2): another path (F1: metadata go to the data node) and the same path,
slower (F5: a spin before the storage node's reply). Against a run of another seed without the fault; and two
runs without, in which nothing may be coloured and no share may change.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.diverging import compared
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import read_recordings
from evaluation.runs import Simulated, forget_runs, period_of
from evaluation.variance_truths import population_of

from analyze.load import load_population
from analyze.methods.clusters.cluster_overlays import ClusterOverlay
from analyze.methods.clusters.clusters_run import ClustersRun, clusters_run
from analyze.methods.clusters.settings import ClustersSettings
from analyze.refine.settings import RefineSettings
from flowdiff.samples import find_samples

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ClustersSettings(refits=0)
FIRST_SEED = 800_000
"""Seeds that no trial uses."""
TYPES = ("network_delay", "cpu_contention")


@dataclass(frozen=True)
class Case:
    """A fault and where it shows."""

    workload: str
    fault: str
    nodes: tuple[tuple[str, str], ...]
    """(part of the component, name) of a node of the truth; empty name: any there."""


CASES = {
    "F1": Case(
        "postmark-large", "F1-mds-config", (("sn-data/sn", "WRITE_CALL"), ("sn-meta/sn", "WRITE_CALL"))
    ),
    "F5": Case("sfs97", "F5-spin", (("sn", "STORAGE_NODE_RPC_REPLY"),)),
    "F5 postmark": Case("postmark-large", "F5-spin", (("sn", "STORAGE_NODE_RPC_REPLY"),)),
    "A/A postmark": Case("postmark-large", "N1-same", ()),
    "A/A sfs97": Case("sfs97", "N1-same", ()),
}


def run_of(case: Case, seed: int, requests: int, settings: ClustersSettings = SETTINGS) -> ClustersRun:
    """A run without the fault, and one with it, clustered together."""
    periods = [
        period_of(Simulated(case.workload, fault, None, requests, 1.0, chosen, with_truth=False))
        for fault, chosen in (("N1-same", seed + 500), (case.fault, seed))
    ]
    return clusters_run(population_of(periods, ["reference", "problem"]), settings)


def coloured(run: ClustersRun) -> list[ClusterOverlay]:
    """Overlays with a colour, the first first."""
    return [held for held in run.overlays if held.score_us > 0 and held.kind in ("samples", "origin")]


def most_coloured(run: ClustersRun, held: ClusterOverlay) -> tuple[str, str]:
    """(component, name) of an overlay's most coloured node."""
    component, name = run.tree.names[int(held.overlay.node[held.overlay.first])]
    return component, name


def is_there(case: Case, node: tuple[str, str]) -> bool:
    """Whether a node is one of the truth."""
    return any(where in node[0] and name in ("", node[1]) for where, name in case.nodes)


def simulated(keys: Sequence[str], seeds: int, requests: int) -> Iterator[str]:
    """A line a run, and totals."""
    for key in keys:
        case = CASES[key]
        first = every = overlays = changed = tested = 0
        rand = []
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            run = run_of(case, seed, requests)
            forget_runs()
            found = coloured(run)
            nodes = [most_coloured(run, held) for held in found]
            hits = [is_there(case, node) for node in nodes]
            first += bool(hits and hits[0])
            every, overlays = every + sum(hits), overlays + len(hits)
            rand.append(run.agreement.adjusted_rand)
            if run.shares is not None:
                changed, tested = changed + int(run.shares.changed.sum()), tested + len(run.shares.changed)
            yield (
                f"{key} seed {seed}: {run.partition.n_clusters} clusters, {len(found)} coloured, "
                f"{sum(hits)} at the fault; first {nodes[0] if nodes else 'none'}; rand {rand[-1]:.2f}"
            )
        yield (
            f"{key}: first overlay's most coloured node at the fault in {first} of {seeds}; of all coloured "
            f"overlays {every} of {overlays}; shares changed {changed} of {tested}; "
            f"adjusted Rand with categories {min(rand):.2f} to {max(rand):.2f}"
        )


def recorded(folder: Path, lakes: Path | None, types: Sequence[str]) -> Iterator[str]:
    """A line a fault: what the first overlays show, and totals a recording."""
    for recording in read_recordings(folder):
        lake = lake_of(recording, ROOT) if lakes is None else lakes / f"{recording.name}.lake"
        faults = [fault for fault in recording.faults if fault.type in types]
        counts = dict.fromkeys(("coloured", "first at the service", "one of three at the service"), 0)
        for fault in faults:
            run = clusters_run(compared(recording, lake, fault), SETTINGS)
            nodes = ["/".join(most_coloured(run, held)) for held in coloured(run)]
            counts["coloured"] += bool(nodes)
            counts["first at the service"] += bool(nodes) and fault.service in nodes[0]
            counts["one of three at the service"] += any(fault.service in node for node in nodes[:3])
            yield (
                f"{fault.id} ({fault.visible}): {run.partition.n_clusters} clusters, "
                f"rand {run.agreement.adjusted_rand:.2f}; {'; '.join(nodes[:3]) or 'nothing coloured'}"
            )
        yield f"{recording.name}: of {len(faults)} " + ", ".join(f"{name} {n}" for name, n in counts.items())


def quiet(folder: Path, lakes: Path | None) -> Iterator[str]:
    """Pairs of neighbouring quiet stretches, in which nothing may be coloured."""
    for recording in read_recordings(folder):
        lake = lake_of(recording, ROOT) if lakes is None else lakes / f"{recording.name}.lake"
        pairs = list(itertools.pairwise(recording.quiet))
        wrong = 0
        for reference, problem in pairs:
            found = find_samples(
                {"reference": [reference], "problem": [problem]}, (), now_ns=0, lake=str(lake)
            )
            run = clusters_run(load_population(found.compared, RefineSettings()).population, SETTINGS)
            nodes = ["/".join(most_coloured(run, held)) for held in coloured(run)]
            changed = 0 if run.shares is None else int(run.shares.changed.sum())
            wrong += bool(nodes or changed)
            if nodes or changed:
                yield f"{reference} {problem}: {'; '.join(nodes)}; {changed} shares changed"
        yield f"{recording.name}: of {len(pairs)} quiet pairs {wrong} show a colour or a change"


def main() -> None:
    """Print the lines that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--requests", type=int, default=3_000)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--lakes", type=Path)
    parser.add_argument("--quiet", action="store_true", help="quiet pairs of the recordings instead")
    parser.add_argument("--types", nargs="*", default=list(TYPES))
    asked = parser.parse_args()
    if asked.seeds:
        for line in simulated(asked.cases, asked.seeds, asked.requests):
            print(line, flush=True)
    if asked.recordings and asked.quiet:
        for line in quiet(asked.recordings, asked.lakes):
            print(line, flush=True)
    elif asked.recordings:
        for line in recorded(asked.recordings, asked.lakes, asked.types):
            print(line, flush=True)


if __name__ == "__main__":
    main()
