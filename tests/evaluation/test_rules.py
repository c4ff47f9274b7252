"""Leaving a rule out of what comes after it is the same as never having had it."""

from __future__ import annotations

from itertools import chain

import pytest
from evaluation.rules import anew, observed_by, read, rules, without_each
from golden.comparisons import CASES, Case

from analyze.methods.robust.rule_names import rule_names

pytestmark = pytest.mark.evaluation

CHOSEN = (
    "boutique-return",
    "made-canary-the-canary-is-slower",
    "made-zipkin-unrecorded-orders-db-fails-in-35",
    "simulated-8.2-mds-config",
    "simulated-F12-load",
    "simulated-N6-rename",
    "tickets-contention-alone",
)
"""By history and alone; between them every kind of rule has a part in some."""
GROUPS = 4


@pytest.mark.parametrize("case", [case for case in CASES if case.name in CHOSEN], ids=lambda case: case.name)
def test_a_rule_without_a_part_changes_nothing(case: Case) -> None:
    """Everything that comes after the profile is made anew without the rule, and reads the same.

    Rules without a part are left out some at once (no engine is without any measure): where that reads the
    same, none of them had one; else each of them is left out alone.
    """
    observing = observed_by(case)
    assert observing is not None
    whole = observing.run()
    names = [rule.name for rule in rules()]
    assert sorted(names) == rule_names()
    left = dict(without_each(observing, whole, names))
    others = [name for name in names if name not in left]
    assert left
    assert others, "some rules had a part in it, and not all"
    told = read(whole, None)
    some = [others[first::GROUPS] for first in range(min(GROUPS, len(others)))]
    differing = [group for group in some if read(anew(observing, *group).run(), None) != told]
    reads = {name: read(left.get(name, whole), None) for name in (*left, *chain(*differing))}
    assert reads == {name: read(anew(observing, name).run(), None) for name in reads}
