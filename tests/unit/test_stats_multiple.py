"""False discovery rate, against its definition and SciPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracles import statistics as oracle
from scipy import stats

from analyze.stats.multiple import q_values

P = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=30)


@given(P, st.sampled_from([0.01, 0.05, 0.3]))
def test_rejected_is_the_step_up_procedure(p: list[float], level: float) -> None:
    assert (q_values(np.array(p)) <= level).tolist() == oracle.bh_rejected(p, level)


@given(P)
def test_q_values_are_scipys(p: list[float]) -> None:
    np.testing.assert_allclose(q_values(np.array(p)), stats.false_discovery_control(p), rtol=1e-12)


def test_tests_that_were_not_run_do_not_count() -> None:
    p = np.array([0.04, np.nan, np.nan, np.nan])
    assert (q_values(p) <= 0.05).tolist() == [True, False, False, False]
    assert np.isnan(q_values(p)[1])
    assert len(q_values(np.zeros(0))) == 0
