"""Names of the rules of robust mode that the setting `without` can disable."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from analyze.methods.robust.causes.relations import RELATIONS
from analyze.methods.robust.causes.resolve import BETTER_LAST
from analyze.methods.robust.confounders.registry import CONFOUNDERS
from analyze.methods.robust.measures.registry import MEASURES
from analyze.methods.robust.pattern_dispersion import PATTERN_DISPERSION
from analyze.methods.robust.segments.segment_changes import SEGMENTS
from analyze.methods.robust.testing import WINDOW_SHARES
from analyze.methods.robust.view import CHANGE_NOISE
from schemas.errors import ConfigError


def rule_names() -> list[str]:
    """Names of all rules that can be disabled, sorted: measures, confounders, relations, and single rules."""
    others = {PATTERN_DISPERSION, WINDOW_SHARES, CHANGE_NOISE, BETTER_LAST, SEGMENTS}
    rows = (
        {row.name for row in MEASURES},
        {row.name for row in CONFOUNDERS},
        {row.name for row in RELATIONS},
    )
    return sorted(others.union(*rows))


def refuse_unknown(names: Collection[str]) -> None:
    """Raise ConfigError if one of `names` is not the name of a rule; the message suggests similar names."""
    known = rule_names()
    for name in names:
        if name not in known:
            near = get_close_matches(name, known)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"Rules are {', '.join(known)}."
            raise ConfigError(f"robust.without: there is no rule '{name}'. {hint}")
