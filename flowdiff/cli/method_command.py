"""Subcommand for one method: `flowdiff variance` is `compare` with that method under its own name.

The module of such a command is three lines, and a row in `flowdiff.__main__.COMMANDS`:

    from flowdiff.cli.method_command import method_command

    command = method_command("variance", \"\"\"Find where response times vary, and why. …\"\"\")

It takes one period or two, as many as its method takes:

    flowdiff variance --period P                                   one sample, called `period`
    flowdiff variance --reference A --problem B                    two samples
    flowdiff variance --period P --reference-where … --problem-where …     two parts of one period
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from analyze.methods.registry import settings_of
from flowdiff.cli.analysis import Destinations, compared, publish
from flowdiff.cli.named_settings import REFINE, SetOption, chosen_settings, help_all_option
from flowdiff.cli.options import OUTPUT, PERIODS, ComparedPeriods
from flowdiff.cli.settings_options import Flags, Options, Together, takes_settings
from flowdiff.settings.keys import keys_of


def method_command(name: str, doc: str, everyday: tuple[str, ...] = ()) -> Callable[..., None]:
    """Command of a method; `doc` is its help, with the first sentence as its line in `flowdiff --help`.

    everyday: names of the settings that get an option; all other settings are set with `--set`. Raises
    ConfigError for an unknown method.
    """

    def command(
        *,
        period: Annotated[
            list[str] | None,
            typer.Option(
                metavar="PERIOD",
                help="Period to analyse: ISO range, `2026-11-19/1d`, `LAKE@range`; may be repeated. "
                "Default: the whole lake, unless two periods are given.",
            ),
        ] = None,
        periods: Annotated[ComparedPeriods, Together(PERIODS)],
        settings: SetOption = None,
        to: Annotated[Destinations, Together(OUTPUT)],
        flags: Flags,
        help_all: bool = False,
    ) -> None:
        from flowdiff.samples import one_or_two

        del help_all  # its callback ends the command earlier
        chosen, refine = chosen_settings(
            [name], [*(f"{name}.{key}={value}" for key, value in flags.items()), *(settings or ())]
        )
        two = periods.reference or (), periods.problem or ()
        asked = one_or_two(period or (), *two, periods.own_where)
        remedy = "Give --period, or --reference and --problem."
        found, outcome = compared(asked, periods, chosen, refine, remedy)
        # Store the report in the analysed lake; --lake may differ, as it is for periods that name none.
        publish(outcome, found.compared[-1][1][0].lake, to, done="The analysis is done")

    everyday_options = Options(only=everyday, keys=tuple(keys_of(settings_of(name))))
    command.__annotations__["flags"] = Annotated[Flags, everyday_options]
    command.__annotations__["help_all"] = Annotated[bool, help_all_option(REFINE, name)]
    command.__doc__ = doc
    return takes_settings(command)
