"""Which features tell the classes apart, one log of one study (DIST §3.2; ALGORITHMS G.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from analyze.methods.distalyze.instance_logs import LogType, VariableName
from analyze.methods.distalyze.log_features import TYPES, FeatureMaker, FeatureType
from analyze.stats.welch import WelchTests, welch_tests

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

MOSTLY: Final = 0.5
"""A variable in a smaller share of a class's instances is tested on its presence only."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Tests of all features of a log; matrices are [types, variables]."""

    log_type: LogType
    names: tuple[VariableName, ...]
    types: tuple[FeatureType, ...]
    t: F8
    """NaN where not tested."""
    p: F8
    """The larger of Welch's and that with the spread of both classes together."""
    mean0: F8
    mean1: F8
    when_us: F8
    """[variables] `FeatureMaker.when_us`."""

    @property
    def tested(self) -> int:
        """Features tested."""
        return int((~np.isnan(self.p)).sum())

    def significant(self, level: float) -> B1:
        """[types, variables] at this level of p."""
        return np.asarray(~np.isnan(self.p) & (self.p <= level))

    def strength(self, level: float, ranking: Literal["sum_of_abs", "abs_of_sum"]) -> F8:
        """[variables] what variables are ranked by: sum over their significant features."""
        t = np.where(self.significant(level), self.t, 0.0)
        return np.asarray(np.abs(t).sum(axis=0) if ranking == "sum_of_abs" else np.abs(t.sum(axis=0)))


def divergence(maker: FeatureMaker, weight: F8) -> Divergence:
    """Test every feature of a log; weight [instances]. O(types · variables · instances)."""
    types = (*TYPES[maker.series.log_type], FeatureType.PRESENCE)
    n = maker.shape[0]
    seldom = (np.minimum(*maker.present()) if n else np.zeros(0)) < MOSTLY
    problem = maker.instances.problem
    rows: list[WelchTests] = []
    for type_ in types:
        tests = welch_tests(maker.matrix(type_), problem, weight)
        wanted = seldom if type_ is FeatureType.PRESENCE else ~seldom
        rows.append(
            WelchTests(
                np.where(wanted, tests.t, np.nan),
                np.where(wanted, tests.p, np.nan),
                np.where(wanted, tests.p_pooled, np.nan),
                tests.mean0,
                tests.mean1,
            )
        )
    return Divergence(
        maker.series.log_type,
        maker.series.names,
        types,
        np.stack([row.t for row in rows]),
        np.stack([np.maximum(row.p, row.p_pooled) for row in rows]),
        np.stack([row.mean0 for row in rows]),
        np.stack([row.mean1 for row in rows]),
        maker.when_us(),
    )
