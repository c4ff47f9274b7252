"""Make a subcommand of one method: `flowdiff variance` is `compare` with that method, by its own name.

The module of such a command is three lines, and a row in `flowdiff.__main__.COMMANDS`:

    from flowdiff.cli.method_command import method_command

    command = method_command("variance", \"\"\"Find where response times vary, and why. …\"\"\")

It takes one period or two, as many as its method takes:

    flowdiff variance --period P                                   one sample, called `period`
    flowdiff variance --reference A --problem B                    two samples
    flowdiff variance --period P --reference-where … --problem-where …     two parts of one period
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from analyze.methods.registry import method_of, settings_of
from analyze.refine.settings import RefineSettings
from flowdiff.cli.analysis import Destinations, analysed, publish, refuse_sample_count
from flowdiff.cli.options import (
    REFINE_OPTIONS,
    OpenOption,
    PeriodsLakeOption,
    PeriodsWhereOption,
    ProblemOption,
    ProblemWhereOption,
    ReferenceOption,
    ReferenceWhereOption,
    ReportHtmlOption,
    ReportJsonOption,
    SaveOption,
    own_filters,
    warn_of_pending,
)
from flowdiff.cli.settings_options import Options, takes_settings
from flowdiff.settings.keys import keys_of

if TYPE_CHECKING:
    from analyze.methods.port import Chosen


def with_methods(
    run: Callable[..., None], names: Sequence[str], everyday: Collection[str] = ()
) -> Callable[..., None]:
    """`run` as a command: its parameters and the settings of some methods are the options.

    It takes what was chosen, methods with settings, as the keyword `chosen`, which is no option. A field that
    `run` or an earlier method has, too, is called `--<method>-<field>`. everyday: settings that `--help`
    shows; `--help-all` shows all. Raises ConfigError where there is no such method.
    """
    # What is chosen is no option: here its type, which is slow to import, may be any.
    hints = get_type_hints(run, localns={"Chosen": Sequence}, include_extras=True)
    taken = set(hints)
    places = {f"settings_of_{name.replace('-', '_')}": name for name in names}
    parameters = [p for p in inspect.signature(run).parameters.values() if p.name != "chosen"]
    for place, name in places.items():
        model = settings_of(name)
        # Models inside are for a configuration.
        fields = {key.name for key in keys_of(model) if len(key.path) == 1}
        hints[place] = Annotated[
            model,
            Options(
                only=tuple(name for name in model.model_fields if name in fields),
                flags={field: f"--{name}-{field.replace('_', '-')}" for field in fields & taken},
                everyday=fields.intersection(everyday),
                panel=f"How the method '{name}' decides",
            ),
        ]
        taken |= fields
        parameters.append(inspect.Parameter(place, inspect.Parameter.KEYWORD_ONLY))

    def command(**given: Any) -> None:
        from analyze.methods.port import Chosen

        run(chosen=[Chosen(method_of(name), given.pop(place)) for place, name in places.items()], **given)

    command.__doc__ = run.__doc__
    command.__annotations__ = {p.name: hints[p.name] for p in parameters} | {"return": None}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return takes_settings(command)


def method_command(name: str, doc: str, everyday: Collection[str] = ()) -> Callable[..., None]:
    """The command of a method; `doc` is its help, and its first sentence its line in `flowdiff --help`.

    everyday: see `with_methods`. Raises ConfigError where there is no such method.
    """
    command = with_methods(_analyse, [name], everyday)
    command.__doc__ = doc
    return command


def _analyse(
    *,
    chosen: Sequence[Chosen[Any]],
    period: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERIOD",
            help="Period to look at: ISO range, `2026-11-19/1d`, `LAKE@range`; several: repeated. "
            "Default: all, where no two periods are given.",
        ),
    ] = None,
    reference: ReferenceOption = None,
    problem: ProblemOption = None,
    lake: PeriodsLakeOption = None,
    where: PeriodsWhereOption = None,
    reference_where: ReferenceWhereOption = None,
    problem_where: ProblemWhereOption = None,
    refine: Annotated[RefineSettings, REFINE_OPTIONS],
    json_file: ReportJsonOption = None,
    html_file: ReportHtmlOption = None,
    save: SaveOption = True,
    open_page: OpenOption = False,
) -> None:
    from flowdiff.samples import find_samples, one_or_two

    to = Destinations(json_file, html_file, save=save, open_page=open_page)
    own_where = own_filters(reference_where, problem_where)
    asked = one_or_two(period or (), reference or (), problem or (), own_where)
    refuse_sample_count(
        [one.method for one in chosen], [*asked], "Give --period, or --reference and --problem."
    )
    found = find_samples(asked, (), now_ns=time.time_ns(), lake=lake, where=where, own_where=own_where)
    warn_of_pending(found.periods)
    outcome = analysed(found, chosen, refine, "never")
    # Kept where what was looked at lies; --lake may be another one, of periods that name none.
    publish(outcome, found.compared[-1][1][0].lake, to, done="The analysis is done")
