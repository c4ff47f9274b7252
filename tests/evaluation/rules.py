"""Leave out every rule of the robust engine by its name, and tell which golden comparisons change.

A rule is a row of MEASURES, CONFOUNDERS, RELATIONS or RANKING. Each comparison is loaded once and tested
again without each rule; what is held against the whole engine is what a person reads first: the outcome,
the first finding, and how many there are. `make evaluate RULES=1` measures all and writes
docs/evaluation-rules.json, of which the page has the table; `make evaluate WITHOUT=name` prints the
comparisons that a rule changes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from golden.comparisons import CASES, Case  # noqa: E402
from golden.lakes import lake_of  # noqa: E402

from analyze.methods.robust import robust_result as filled  # noqa: E402
from analyze.methods.robust.causes.ranking import RANKING  # noqa: E402
from analyze.methods.robust.causes.relations import RELATIONS  # noqa: E402
from analyze.methods.robust.confounders.registry import CONFOUNDERS  # noqa: E402
from analyze.methods.robust.measures import MEASURES  # noqa: E402
from flowdiff.__main__ import main as flowdiff  # noqa: E402
from schemas.report.findings import FindingsSection  # noqa: E402

KEPT: Final = ROOT / "docs" / "evaluation-rules.json"


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of a registry."""

    name: str
    kind: str
    doc: str
    case: str
    """The case that fails without it, by the row itself."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a person reads first."""

    outcome: str
    findings: int
    first: str

    def against(self, whole: Read) -> str:
        """Say what is lost or gained; empty where nothing is."""
        if self == whole:
            return ""
        if self.findings != whole.findings:
            return f"{whole.findings} → {self.findings} findings"
        return "another first finding" if self.first != whole.first else f"{whole.outcome} → {self.outcome}"


def rules() -> list[Rule]:
    """List every rule of the engine."""
    found = [Rule(row.name, "measure", row.doc, row.case) for row in MEASURES]
    found += [Rule(row.name, "confounder", row.doc, row.case) for row in CONFOUNDERS]
    found += [
        Rule(row.name, "relation", (row.fit.__doc__ or "").splitlines()[0].strip(), row.case)
        for row in RELATIONS
    ]
    return found + [Rule(row.name, "ranking", row.doc, row.case) for row in RANKING]


def read(case: Case, names: Sequence[str]) -> dict[str, Read] | None:
    """Compare with the whole engine ("") and without each of some rules; None where nothing is compared."""
    found: dict[str, Read] = {}
    whole = filled.robust_result

    def each(compared: Any, history: Any, settings: Any, limits: Any) -> Any:
        plain = settings.model_copy(update={"explained": 0, "paths": False})
        for name in ("", *names):
            result = whole(compared, history, plain.model_copy(update={"without": (name,)}), limits)
            (section,) = (s for s in result.sections if isinstance(s, FindingsSection))
            first = section.findings[0].title if section.findings else ""
            found[name] = Read(result.verdict.outcome, section.findings_total, re.sub(r"[\d.,]+", "#", first))
        return result

    filled.robust_result = each
    try:
        arguments = (*case.arguments, "--lake", lake_of(case.lake, ROOT, _command), "--no-save")
        _, said = _command(*arguments)
    finally:
        filled.robust_result = whole
    if found and len(found) <= len(names):
        raise RuntimeError(f"{case.name} breaks without {names[len(found) - 1]}:\n{said}")
    return found or None


def _command(*arguments: object) -> tuple[int, str]:
    out = StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(out):
            flowdiff([str(argument) for argument in arguments])
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", help="one rule; prints the comparisons that it changes")
    parser.add_argument("--only", nargs="*", default=[""], help="comparisons with one of these in their name")
    chosen = parser.parse_args()
    every = rules()
    names = [rule.name for rule in every]
    if chosen.without:
        if chosen.without not in names:
            parser.error(f"no rule is called {chosen.without}; there are {', '.join(names)}")
        names = [chosen.without]
    changed: dict[str, dict[str, str]] = {name: {} for name in names}
    n = 0
    for case in CASES:
        if not any(text in case.name for text in chosen.only) or (found := read(case, names)) is None:
            continue
        n += 1
        for name in names:
            if what := found[name].against(found[""]):
                changed[name][case.name] = what
                print(f"{name}: {case.name}: {what}", flush=True)
    print(
        f"{n} comparisons; no rent here: {', '.join(name for name in names if not changed[name]) or 'none'}"
    )
    if not chosen.without:
        rows = [
            {"name": r.name, "kind": r.kind, "doc": r.doc, "case": r.case, "changed": changed[r.name]}
            for r in every
        ]
        KEPT.write_text(json.dumps({"comparisons": n, "rules": rows}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
