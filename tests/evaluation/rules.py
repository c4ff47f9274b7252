"""Leave out every rule of the robust engine by its name, and say which comparisons change.

A rule is a row of MEASURES, CONFOUNDERS or RELATIONS, or one of OTHERS. Compared are the populations made for
one rule each (`made_cases`) and the goldens' lakes; with `--real DIR` and `--systems SEED` labelled
recordings and described systems, with history and alone, with the quiet pairs of `make score`; with
`--simulated SEED` the simulator's cases of 12,000 requests, alone. Each is profiled and observed once; what
is made again without a rule is what comes after it, and only where the rule had a part in it
(`without_each`). What is compared is what a person reads first: how many findings there are, and the first of
them; of a labelled fault, whether it is the right one. `make evaluate RULES=1 REAL=DIR` measures all and
writes docs/internals/evaluation-rules.json, of which the page has the table; `WITHOUT=name` prints what one
rule changes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from evaluation.cases import CASES as SIMULATED  # noqa: E402
from evaluation.made_cases import MADE  # noqa: E402
from evaluation.recordings.comparing import Asked, loaded  # noqa: E402
from evaluation.recordings.kept_lakes import lake_of as recorded_lake  # noqa: E402
from evaluation.recordings.labelled import Fault, read_recordings  # noqa: E402
from evaluation.recordings.score import PAIRS, PAIRS_OF_SYSTEMS  # noqa: E402
from evaluation.systems.recorded import recorded  # noqa: E402
from evaluation.tiers import SHORT  # noqa: E402
from evaluation.trials import NOTHING, Trial, prepare  # noqa: E402
from golden.comparisons import CASES, Case  # noqa: E402
from golden.lakes import lake_of  # noqa: E402
from golden.report_json import ROW, written  # noqa: E402

from analyze.methods.robust import method as filled  # noqa: E402
from analyze.methods.robust.causes.relations import RELATIONS  # noqa: E402
from analyze.methods.robust.causes.resolve import BETTER_LAST, by_size, causes_of  # noqa: E402
from analyze.methods.robust.causes.symptoms import Cause  # noqa: E402
from analyze.methods.robust.changes import Change  # noqa: E402
from analyze.methods.robust.comparison import Comparison  # noqa: E402
from analyze.methods.robust.confounders.registry import CONFOUNDERS, adjusted  # noqa: E402
from analyze.methods.robust.measures.registry import MEASURES  # noqa: E402
from analyze.methods.robust.pattern_dispersion import PATTERN_DISPERSION  # noqa: E402
from analyze.methods.robust.robust_run import RobustRun, comparison_of, run_of, tested_of  # noqa: E402
from analyze.methods.robust.sections.breakdown import exact_breakdown  # noqa: E402
from analyze.methods.robust.segments.segment_changes import SEGMENTS  # noqa: E402
from analyze.methods.robust.settings import RobustSettings  # noqa: E402
from analyze.methods.robust.sites_seen import SitesSeen  # noqa: E402
from analyze.methods.robust.testing import WINDOW_SHARES, Tested  # noqa: E402
from analyze.methods.robust.verdict.judgement import judge  # noqa: E402
from analyze.methods.robust.view import CHANGE_NOISE  # noqa: E402
from flowdiff.__main__ import main as flowdiff  # noqa: E402

KEPT: Final = ROOT / "docs" / "internals" / "evaluation-rules.json"
SETTINGS: Final = RobustSettings(explained=0)
JUDGED: Final = frozenset(
    {PATTERN_DISPERSION, WINDOW_SHARES, CHANGE_NOISE, *(measure.name for measure in MEASURES)}
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of a registry."""

    name: str
    kind: str
    doc: str
    case: str
    """The case that fails without it, by the row itself."""


OTHERS: Final = (
    Rule(
        SEGMENTS,
        "segments",
        "A value of an attribute, or two, is a place to test, pooled over operations.",
        "tests/evaluation/segments: 0.5 to 0.9 %",
    ),
    Rule(
        PATTERN_DISPERSION,
        "noise",
        "Without a history: where the paths of all sites differ by more than chance, one site must by more.",
        "tests/unit/test_pattern_dispersion.py; recordings: quiet pairs of Train-Ticket, alone",
    ),
    Rule(
        WINDOW_SHARES,
        "noise",
        "With a history: a share is as rare as its windows make it.",
        "tests/unit/test_shares_with_history.py; recordings: quiet pairs of Train-Ticket, with history",
    ),
    Rule(
        CHANGE_NOISE,
        "noise",
        "Without a history: pieces of the reference make what is assumed of a change no surer.",
        "tests/unit/test_measures.py: a call of every twelfth page; systems, alone",
    ),
    Rule(
        BETTER_LAST,
        "order",
        "What got better needs no mending: it comes last, unless the mean fell.",
        "tests/unit/test_order_of_findings.py",
    ),
)


def rules() -> list[Rule]:
    """List every rule of the engine."""
    found = [Rule(row.name, "measure", row.doc, row.case) for row in MEASURES]
    found += [Rule(row.name, "confounder", row.doc, row.case) for row in CONFOUNDERS]
    found += [
        Rule(row.name, "relation", " ".join((row.fit.__doc__ or "").partition("\n\n")[0].split()), row.case)
        for row in RELATIONS
    ]
    return [*found, *OTHERS]


Effect = Literal["lost", "gained", "other"]


class Difference(NamedTuple):
    """What is another without a rule."""

    effect: Effect
    what: str


@dataclass(frozen=True, slots=True)
class Read:
    """What a person reads first."""

    findings: int
    right: bool | None
    """The first names the labelled service; None where nothing is labelled."""
    first: tuple[object, ...]

    def against(self, whole: Read, *, quiet: bool) -> Difference | None:
        """Say what a person loses or gains without a rule; None where both read alike.

        Findings of a quiet pair are false, and one fault should be one finding; of a fault that nobody
        labelled none is a loss.
        """
        if self.right != whole.right:
            return Difference("lost" if whole.right else "gained", "the labelled service is first")
        if self.findings != whole.findings:
            fewer = self.findings < whole.findings
            unseen = whole.right is None and not quiet and not self.findings
            effect: Effect = "gained" if fewer and not unseen else "lost"
            return Difference(effect, f"{whole.findings} → {self.findings} findings")
        return None if self.first == whole.first else Difference("other", "another first finding")


def read(run: RobustRun, fault: Fault | None) -> Read:
    """Read a run as a person would."""
    first = run.causes[0] if run.causes else None
    right = None if fault is None else first is not None and fault.service in _at(first, run)
    told = (
        ()
        if first is None
        else (
            first.component,
            run.profile.names.operation(first.lead.site),
            first.lead.kind,
            len(first.elsewhere),
        )
    )
    return Read(len(run.causes), right, told)


def _at(cause: Cause, run: RobustRun) -> frozenset[str]:
    operation = run.profile.names.operation(cause.lead.site)
    called = {callee for callee in (operation.callee,) if callee}
    return frozenset({operation.component, cause.suspect, cause.component}) | called


@dataclass(frozen=True, slots=True)
class Observing:
    """What was observed at call sites, which is judged again without each rule."""

    plain: Comparison
    """As the samples are."""
    comparison: Comparison
    """As confounders adjusted it."""
    seen: SitesSeen

    @staticmethod
    def of(plain: Comparison) -> Observing:
        """Observe every measure once confounders have adjusted the profile."""
        comparison = adjusted(plain)
        return Observing(plain, comparison, comparison.seen())

    def judged(self) -> Tested:
        """Judge it."""
        return tested_of(self.comparison, self.seen)

    def run(self, tested: Tested | None = None) -> RobustRun:
        """Find the causes, as judged here or given."""
        return run_of(self.comparison, tested or self.judged())


def without_each(
    observing: Observing, whole: RobustRun, names: Collection[str]
) -> Iterator[tuple[str, RobustRun]]:
    """Give the run without each rule that had a part in it; the others cannot change what is read.

    A measure, and the request mix, may have one by the correction of many tests alone: so what was observed
    is judged again, and they had a part if other changes are significant. A confounder had one if it adjusted
    the profile, or if changes are explained by it (of the load also those that findings took); a relation, if
    a symptom follows by it: then causes are resolved again, and nothing before. What is assumed of noise is
    in estimates: they are observed again.
    """
    had = _what_counts(whole.tested)
    explained = {name for name, one in whole.confounded.explained.items() if one.changes}
    if any(symptom.by_load for symptom in whole.context.symptoms):
        explained.add("load")
    states = {row.name: row.state for row in CONFOUNDERS if row.state is not None}
    noticed = {name for name, state in states.items() if observing.comparison.noticed_as(state) is not None}
    related = {edge.relation for cause in whole.causes for edge in cause.edges}
    for name in names:
        assumed = name == CHANGE_NOISE and observing.comparison.roles.noise_assumed
        left = anew(observing, name) if assumed else _without(observing, name)
        if name in JUDGED:
            again = left.judged()
            if _what_counts(again) != had:
                yield name, left.run(again)
        elif name in noticed:  # it adjusted the profile
            yield name, anew(observing, name).run()
        elif name in explained:
            yield name, left.run(whole.tested)
        elif name in related:
            yield name, replace(whole, causes=causes_of(whole.context, whole.tested.sites, (name,)))
        elif name == SEGMENTS and any(symptom.segment is not None for symptom in whole.context.symptoms):
            yield name, left.run(whole.tested)
        elif name == BETTER_LAST and (causes := by_size(whole.causes)) != whole.causes:
            yield name, replace(whole, causes=causes)


def as_shown(run: RobustRun) -> RobustRun:
    """Rank causes as a report does, which asks the whole period whether the mean changed."""
    if by_size(run.causes) == run.causes:
        return run
    return filled.ranked(run, exact_breakdown(run, "mean"), mean_changed=judge(run).interval("mean")[2])


def _without(observing: Observing, name: str) -> Observing:
    """Leave a rule out of all that comes after what was observed."""
    settings = observing.plain.settings.model_copy(update={"without": (name,)})
    return replace(observing, comparison=replace(observing.comparison, settings=settings))


def anew(observing: Observing, *names: str) -> Observing:
    """Observe again without some rules."""
    settings = observing.plain.settings.model_copy(update={"without": names})
    return Observing.of(replace(observing.plain, settings=settings))


def _what_counts(tested: Tested) -> list[Change]:
    """List the significant changes but for their q, which decides nothing more."""
    return [replace(change, q=1.0) for change in tested.changes]


Observed = tuple[str, bool, Fault | None, Observing]
"""What a comparison is called, whether it is a quiet pair, its labelled fault, and what was observed."""


class _Observed(Exception):  # noqa: N818 - no error: what is asked of a command is done
    """A command has come to the engine."""


def golden_runs() -> Iterator[Observed]:
    """Observe the goldens' comparisons by robust mode."""
    for case in CASES:
        if case.arguments[0] != "compare" or "--method" in case.arguments:
            continue
        if (found := observed_by(case)) is not None:
            yield case.name, case.quiet, None, found


def observed_by(case: Case) -> Observing | None:
    """Let the command line load a comparison, and observe it instead of making its report; None where a
    period has no request."""
    seen: list[Observing] = []

    def observe(compared: Any, history: Any, settings: Any) -> None:
        plain = settings.model_copy(update={"explained": 0, "paths": False})
        seen.append(Observing.of(comparison_of(compared, history, plain)))
        raise _Observed

    with patch.object(filled, "robust_run", observe), suppress(_Observed):
        _command(*case.arguments, "--lake", lake_of(case.lake, ROOT, _command), "--no-save")
    return seen[0] if seen else None


def _command(*arguments: object) -> tuple[int, str]:
    out = StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(out):
            flowdiff([str(argument) for argument in arguments])
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def made_runs() -> Iterator[Observed]:
    """Observe the populations that were made for one rule each."""
    for case in MADE:
        compared, history = case.make()
        yield case.about, case.quiet, None, Observing.of(comparison_of(compared, history, case.settings))


def recorded_runs(folder: Path, pairs: int) -> Iterator[Observed]:
    """Observe the faults of recordings, and so many quiet pairs, with history and alone; a fault that spans
    do not show is one, too."""
    for recording in read_recordings(folder):
        lake = recorded_lake(recording, ROOT)
        for mode in ("a", "b"):
            asked: list[tuple[Fault | None, Asked]] = [
                (fault, Asked(recording, lake, mode, fault.reference, fault.problem, quiet=False))
                for fault in recording.faults
                if fault.visible != "unclear" and (fault.reference is not None or mode == "a")
            ]
            asked += [
                (None, Asked(recording, lake, mode, *pair, quiet=True))
                for pair in recording.quiet_pairs(pairs)
            ]
            for fault, one in asked:
                quiet = fault is None or fault.visible == "invisible"
                about = (
                    f"quiet since {str(one.reference)[11:19]},"
                    if fault is None
                    else fault.id.partition("/")[2]
                )
                name = f"{recording.name.partition('-20')[0]} {mode} {about} {one.problem[11:19]}"
                found = loaded(one)
                observing = Observing.of(comparison_of(found.population, found.history, SETTINGS))
                yield name, quiet, None if quiet else fault, observing


def simulated_runs(seed: int, keys: Collection[str]) -> Iterator[Observed]:
    """Observe the simulator's cases of the short tier."""
    for case in SIMULATED.values():
        if case.level == "L0" and not case.simulation and (not keys or case.key in keys):
            ready = prepare(Trial(case.key, seed, SHORT.size(case), SHORT.sample))
            observing = Observing.of(comparison_of(ready.subject.population, None, SETTINGS))
            yield f"simulator {case.key} seed {seed}", case.rule == NOTHING, None, observing


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", help="one rule; prints the comparisons that it changes")
    parser.add_argument("--real", type=Path, help="labelled recordings")
    parser.add_argument("--systems", type=int, help="described systems of this seed")
    parser.add_argument("--simulated", type=int, help="the simulator's cases of this seed")
    parser.add_argument("--cases", nargs="*", default=(), help="of these only")
    parser.add_argument("--no-goldens", action="store_true", help="without the goldens' comparisons")
    parser.add_argument("--json", type=Path, default=KEPT, help="where to write")
    chosen = parser.parse_args()
    every = rules()
    names = [rule.name for rule in every]
    if chosen.without:
        if chosen.without not in names:
            parser.error(f"no rule is called {chosen.without}; there are {', '.join(names)}")
        names = [chosen.without]
    changed: dict[str, dict[str, Difference]] = {name: {} for name in names}
    acted = dict.fromkeys(names, 0)
    n = 0
    for about, quiet, fault, observing in _all(chosen):
        n += 1
        run = as_shown(observing.run())
        whole = read(run, fault)
        for name, left in without_each(observing, run, names):
            acted[name] += 1
            if found := read(as_shown(left), fault).against(whole, quiet=quiet):
                changed[name][about] = found
                print(f"{name}: {about}: {found.effect}: {found.what}", flush=True)
    print(f"{n} comparisons; no rent here: {', '.join(m for m in names if not changed[m]) or 'none'}")
    if not chosen.without:
        rows = [
            {"name": r.name, "kind": r.kind, "doc": r.doc, "case": r.case}
            | {"acted": acted[r.name], "changed": changed[r.name]}
            for r in every
        ]
        chosen.json.write_text(written({"comparisons": n, "rules": rows}, line=ROW) + "\n", encoding="utf-8")


def _all(chosen: argparse.Namespace) -> Iterator[Observed]:
    yield from made_runs()
    if not chosen.no_goldens:
        yield from golden_runs()
    if chosen.real is not None:
        yield from recorded_runs(chosen.real, PAIRS)
    if chosen.systems is not None:
        yield from recorded_runs(recorded(ROOT, chosen.systems), PAIRS_OF_SYSTEMS)
    if chosen.simulated is not None:
        yield from simulated_runs(chosen.simulated, chosen.cases)


if __name__ == "__main__":
    main()
