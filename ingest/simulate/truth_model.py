"""Model the truth file's summary: frozen models, JSON, version 1 (docs/simulator.md)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

TRUTH_VERSION = 1


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EdgeTruth(_Frozen):
    """An edge on which a cause acted: labels of its two nodes, how often, and the work added each time."""

    src: str
    dst: str
    touches: int
    added_ns_mean: float


class CauseTruth(_Frozen):
    """One cause of the run."""

    name: str
    mechanism: str
    severity: float
    start_ns: int
    """Since the epoch."""
    touched: int
    """Sampled requests that its code acted on."""
    affected: int
    share_ns: float
    """Its Shapley value of the change of the mean response time."""
    edges: list[EdgeTruth]
    """Most touched first."""


class PathTruth(_Frozen):
    """A path (category with hosts) and what requests on it do."""

    path: str
    kernel_path: str
    """The same without hosts: what the stitch kernel tells apart."""
    op: str
    n_nodes: int
    n: int
    """RecordedRequests requests on it."""
    n_base: int
    """Requests on it in the counterfactual."""
    facts: dict[str, int]


class FlowTruth(_Frozen):
    """Requests that went from one path to another because of the causes: true precursor and mutation."""

    base_path: str
    path: str
    n: int
    affected: int
    delta_ns_sum: int


class Decomposition(_Frozen):
    """The change of the mean response time over the requests that started after the first cause did, in ns.

    `mean_ns - base_mean_ns = affected_ns + knock_on_ns + rest_ns + mix_ns`, exactly (up to rounding of sums).
    """

    n: int
    n_base: int
    mean_ns: float
    base_mean_ns: float
    affected_ns: float
    """Requests that causes touched."""
    knock_on_ns: float
    rest_ns: float
    """Differences too small to call knock-on."""
    mix_ns: float
    """Requests that exist in one of the two runs only."""
    changed_path_ns: float
    """Part of the first three that comes from requests whose path changed."""


class TruthSummary(_Frozen):
    """Everything about a run but the requests themselves."""

    version: int = TRUTH_VERSION
    workload: str
    seed: int
    tag: str
    """Every request id of the run begins with it."""
    sample: float
    n_simulated: int
    start_ns: int
    end_ns: int
    causes: list[CauseTruth]
    change: Decomposition
    paths: list[PathTruth]
    flows: list[FlowTruth]
