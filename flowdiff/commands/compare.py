"""`flowdiff compare`: what changed between two periods, or what a method finds in one or many.

What does the work is imported where it is called: help and completion need the options only.
"""

from __future__ import annotations

import inspect
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast, get_args, get_type_hints

import typer
from rich.console import Console

from analyze.methods.port import AnyMethod, Chosen
from analyze.methods.registry import method_of
from analyze.refine.settings import RefineSettings
from analyze.report.gate import ANY, Floor, gate_code, parse_fail_on, parse_floor
from analyze.report.outcome import Outcome
from flowdiff.model_options import FieldOption, ModelOptions, takes_models
from flowdiff.options import warn_of_pending
from flowdiff.output import open_output
from flowdiff.refine_options import REFINE_OPTIONS
from flowdiff.streams import told_afterwards
from schemas.errors import ConfigError
from schemas.report.report import to_json

if TYPE_CHECKING:
    from analyze.history.reading import StatisticsUse
    from flowdiff.sampling import Samples

STDOUT: Final = "-"
DEFAULT_METHODS: Final = ("robust",)


def _compare(
    *,
    chosen: Sequence[Chosen[Any]],
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERIOD",
            help="Period before: ISO range, `2026-11-19/1d`, `LAKE@range`; several: repeated, `A,B`.",
        ),
    ] = None,
    problem: Annotated[
        list[str] | None, typer.Option(metavar="PERIOD", help="Period after, written the same way.")
    ] = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PERIOD",
            help="Instead of the two: a sample of this name, for methods of one or many; repeated.",
        ),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERIOD",
            help="Ordinary times, for methods that look; written the same way. It may hold the others.",
        ),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option(envvar="FLOWDIFF_LAKE", metavar="LAKE", help="Lake of periods that name none."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Filter of all periods: \"service.version = 'v2' and host = 'a'\".")
    ] = None,
    reference_where: Annotated[str | None, typer.Option(help="Filter of the reference only.")] = None,
    problem_where: Annotated[str | None, typer.Option(help="Filter of the problem period only.")] = None,
    refine: Annotated[RefineSettings, REFINE_OPTIONS],
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write the report as JSON here too; `-` prints it.")
    ] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write the page here too.")] = None,
    save: Annotated[bool, typer.Option(help="Keep the report in the lake, under reports/.")] = True,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    statistics: Annotated[
        str,
        typer.Option(
            metavar="USE",
            help="What is read from window statistics, not requests: auto (long histories, samples that "
            "do not fit into memory), never, history, all.",
        ),
    ] = "auto",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="What makes the exit code 1 or 3: any (default), never, or kinds, repeated: errors, "
            "response-time, structural, workload (as the method has them).",
        ),
    ] = None,
    min_contribution: Annotated[
        str | None,
        typer.Option(help="Smaller changes of time do not: summed response time (500ms) or share (5%)."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="How to compare; repeated for several in one report. It brings options of its own."
        ),
    ] = None,
) -> None:
    """Compare two periods: name, rank and explain what changed.

    Exit code 0: nothing found. 1: changed (see --fail-on, --min-contribution). 2: error. 3: it cannot be
    told, or something changed that nothing explains.
    """
    from analyze.report.terminal import print_report
    from flowdiff.sampling import asked_samples, find_samples
    from stitch.lake.place import is_bucket

    del method  # read before the options were made: see CompareCommand
    counts = parse_fail_on(fail_on or (ANY,), chosen[0].method.kinds)
    floor = Floor() if min_contribution is None else parse_floor(min_contribution)
    asked = asked_samples(reference or (), problem or (), sample or ())
    refuse_sample_count([method.method for method in chosen], [*asked])
    found = find_samples(
        asked,
        history or (),
        now_ns=time.time_ns(),
        lake=lake,
        where=where,
        own_where={
            name: text
            for name, text in (("reference", reference_where), ("problem", problem_where))
            if text is not None
        },
    )
    warn_of_pending(found.periods)
    outcome = _run(found, chosen, refine, _use(statistics))
    kept_in = lake or found.compared[-1][1][0].lake
    if open_page and html_file is None and is_bucket(kept_in):
        raise ConfigError("--open shows a file of this machine.", remedy="Give --html FILE, too.")
    page = _write(outcome, kept_in, save=save, json_file=json_file, html_file=html_file)
    if json_file == STDOUT:
        sys.stdout.buffer.write(to_json(outcome.report).encode())
    else:
        # The exit code says what was found, whoever reads the text to its end.
        with told_afterwards("The comparison is done"):
            console = Console()
            print_report(outcome.report, outcome.views, console)
            if page is not None:
                console.print(f"\nReport: {page}", markup=False, highlight=False, soft_wrap=True)
    if open_page and page is not None:
        webbrowser.open(Path(page).resolve().as_uri())
    if code := gate_code(outcome, counts, floor):
        raise typer.Exit(code)


def refuse_sample_count(methods: Sequence[AnyMethod], names: Sequence[str]) -> None:
    """Raise ConfigError where a method takes another number of samples, before anything is read."""
    for method in methods:
        if method.samples.allows(len(names)):
            continue
        missing = [f"--{name}" for name in ("reference", "problem") if name not in names]
        taken = f"The method '{method.name}' takes {method.samples.text}"
        if method.samples.allows(2) and set(names) <= {"reference", "problem"}:
            raise ConfigError(f"{taken}: {' and '.join(missing)} missing.")
        raise ConfigError(f"{taken}, and {len(names)} given.", remedy="Give each as --sample NAME=PERIOD.")


def _use(text: str) -> StatisticsUse:
    from analyze.history.reading import StatisticsUse

    uses = get_args(StatisticsUse)
    if text not in uses:
        raise ConfigError(f"--statistics {text}: choose from {', '.join(uses)}.")
    return cast("StatisticsUse", text)


def _run(
    found: Samples, chosen: Sequence[Chosen[Any]], refine: RefineSettings, use: StatisticsUse
) -> Outcome:
    from analyze.calibrate import calibration_sentence
    from analyze.compare import compare
    from analyze.history.reading import read_samples

    with _stage("Loading and refining"):
        read = read_samples(
            found.compared,
            found.history,
            refine,
            use=use,
            can_use=all(one.method.statistics is not None for one in chosen),
        )
    compared = replace(read.compared, notes=(*found.notes, *read.compared.notes))
    roots = dict.fromkeys(part.root.resolve().name for _, parts in found.compared for part in parts)
    with _stage("Comparing"):
        return compare(
            compared,
            chosen,
            history=read.history,
            refined=refine,
            source=", ".join(roots),
            calibration=calibration_sentence(found.compared[-1][1][0].store, chosen[0], refine),
        )


def _write(
    outcome: Outcome, lake: str, *, save: bool, json_file: str | None, html_file: Path | None
) -> str | None:
    """Write what was asked for; where the page is, if there is one. Raises LakeError, InputError."""
    from analyze.report.page import render_html
    from analyze.report.store import keep_report
    from stitch.lake.place import open_place

    where = None
    with _stage("Writing the report"):
        page = render_html(outcome.report, outcome.views) if save or html_file is not None else ""
        if save:
            where = keep_report(open_place(lake), outcome, page)
        if json_file is not None and json_file != STDOUT:
            _write_text(Path(json_file), to_json(outcome.report))
        if html_file is not None:
            _write_text(html_file, page)
            where = str(html_file)
    return where


def _write_text(path: Path, text: str) -> None:
    with open_output(path) as out:
        out.write(text.encode())


@contextmanager
def _stage(name: str) -> Iterator[None]:
    """A spinner on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{name} …"):
        yield


def command_of(methods: Sequence[AnyMethod]) -> Callable[..., None]:
    """The command with the options of some methods.

    A field that an earlier method has, too, is called `--<method>-<field>`.
    """
    taken = set(inspect.signature(_compare).parameters)
    places: dict[str, AnyMethod] = {}
    hints = get_type_hints(_compare, include_extras=True)
    parameters = [p for p in inspect.signature(_compare).parameters.values() if p.name != "chosen"]
    for method in methods:
        place = f"settings_of_{method.name.replace('-', '_')}"
        fields = method.settings.model_fields
        named = {
            name: FieldOption(f"--{method.name}-{name.replace('_', '-')}") for name in fields if name in taken
        }
        taken |= fields.keys()
        places[place] = method
        hints[place] = Annotated[method.settings, ModelOptions(fields=named)]
        parameters.append(inspect.Parameter(place, inspect.Parameter.KEYWORD_ONLY))

    def command(**given: Any) -> None:
        chosen = [Chosen(method, given.pop(place)) for place, method in places.items()]
        _compare(chosen=chosen, **given)

    command.__doc__ = _compare.__doc__
    command.__annotations__ = {p.name: hints[p.name] for p in parameters} | {"return": None}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return takes_models(command)


class CompareCommand(typer.core.TyperCommand):
    """`compare`, whose options depend on its methods: they are read first, then the options are made."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """A context of the command with the options of the methods named in `args`. Raises ConfigError."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        methods = [method_of(name) for name in dict.fromkeys(_methods_in(args) or DEFAULT_METHODS)]
        app.command(info_name)(command_of(methods))
        return typer.main.get_command(app).make_context(info_name, args, parent, **extra)


def _methods_in(args: Sequence[str]) -> list[str]:
    """Values of `--method` among arguments that are not parsed yet; what stands after `--` is none."""
    found = []
    options = list(args[: args.index("--")] if "--" in args else args)
    for place, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name == "--method":
            found += [value] if equals else options[place + 1 : place + 2]
    return found


command = command_of([method_of(name) for name in DEFAULT_METHODS])
COMMAND_CLASS: Final = CompareCommand
