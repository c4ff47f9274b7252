"""Every rule that no recording needs has a case that was made for it, and fails without it."""

from __future__ import annotations

import json

import pytest
from evaluation.made_cases import MADE, MadeCase
from evaluation.rules import KEPT, Observing, anew, as_shown, read, rules

from analyze.methods.robust.robust_run import comparison_of

pytestmark = pytest.mark.evaluation


@pytest.mark.parametrize("case", MADE, ids=lambda case: case.rule)
def test_a_case_reads_otherwise_without_its_rule(case: MadeCase) -> None:
    compared, history = case.make()
    observing = Observing.of(comparison_of(compared, history, case.settings))
    whole = read(as_shown(observing.run()), None)
    assert bool(whole.findings) is not case.quiet
    without = read(as_shown(anew(observing, case.rule).run()), None)
    found = without.against(whole, quiet=case.quiet)
    assert found is not None
    assert found.effect != "gained"


def test_no_rule_of_the_kept_table_is_without_effect() -> None:
    kept = {row["name"]: row["changed"] for row in json.loads(KEPT.read_bytes())["rules"]}
    assert {*kept} == {rule.name for rule in rules()}
    assert not [name for name, changed in kept.items() if not changed]
