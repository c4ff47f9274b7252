"""The paper's two kinds of change on the simulator: the changed node is the most coloured (ten: docs)."""

from __future__ import annotations

import pytest
from evaluation.clustered import CASES, coloured, is_there, most_coloured, run_of

from analyze.methods.clusters.settings import ClustersSettings

QUICK = ClustersSettings(clusters=16, starts=2, refits=0)


@pytest.mark.parametrize("key", ["F1", "F5 postmark"])
@pytest.mark.parametrize("seed", [810_001, 810_002])
def test_the_changed_node_is_the_most_coloured(key: str, seed: int) -> None:
    case = CASES[key]
    run = run_of(case, seed, 1_000, QUICK)
    found = coloured(run)
    assert found
    assert is_there(case, most_coloured(run, found[0]))
    assert run.agreement.adjusted_rand > 0.5
