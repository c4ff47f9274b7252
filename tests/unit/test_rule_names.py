"""Rules are left out by a name that there is."""

from __future__ import annotations

import pytest

from analyze.methods.robust.rule_names import refuse_unknown, rule_names
from schemas.errors import ConfigError


def test_every_rule_can_be_left_out() -> None:
    refuse_unknown(rule_names())


@pytest.mark.parametrize(
    ("name", "said"),
    [("renamed-operation", "Did you mean renamed-operations"), ("zzzz", "Rules are ")],
)
def test_a_rule_that_is_not_there_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no rule '{name}'. {said}") as refused:
        refuse_unknown(["other-hosts", name])
    assert "\n" not in refused.value.message
