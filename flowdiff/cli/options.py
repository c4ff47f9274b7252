"""Options shared by several subcommands; only imports that help needs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from flowdiff.cli.terminal import echo
from schemas.errors import ConfigError
from stitch.lake.backends import LAKE_FORMS

if TYPE_CHECKING:
    from analyze.scope import LakePeriod
    from schemas.config import Config

S = TypeVar("S", bound="Config")
LAKE_HELP = f"Lake: {LAKE_FORMS}."
LakeOption = Annotated[str, typer.Option("--lake", envvar="FLOWDIFF_LAKE", metavar="LAKE", help=LAKE_HELP)]
PERIOD_HELP = "Period: all, yesterday, 'last monday', 2026-11-19/1d, START/END, 'last 1h'."
PeriodOption = Annotated[str, typer.Option(help=PERIOD_HELP)]
WHERE_HELP = (
    "Only requests for which this holds: \"status != 'ok' and duration > 250ms\". Keys: root, kind (spans, "
    "records), status (ok or the root's error class), inner_status (of the first failure below an ok root), "
    "error (of any node that failed), duration, host, component, or any parameter (service.version); = != < "
    "<= > >= like in, joined by and. Grammar: docs/internals/concepts.md."
)
WhereOption = Annotated[str | None, typer.Option(help=WHERE_HELP)]
UnsealedOption = Annotated[
    bool,
    typer.Option(
        "--unsealed", help="Include windows that are not sealed yet, as far as live ingestion has read them."
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file (TOML). Default: the variable FLOWDIFF_CONFIG."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Number of worker processes (a small import takes two threads instead), or of "
        "concurrent tasks with Spark. Default: all cores.",
    ),
]


PERIODS: Final = "Periods"
OUTPUT: Final = "Output"
GATE: Final = "Gate"
ADVANCED: Final = "Advanced"
"""Heading in help for the rarely used options of a comparison."""


@dataclass(frozen=True, slots=True)
class ComparedPeriods:
    """Options for two periods and their filters."""

    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference",
            metavar="PERIOD",
            help="Period before: ISO range, `2026-11-19/1d`, `LAKE@range`, same-weekday; several: "
            "repeated, or `A,B`.",
        ),
    ] = None
    problem: Annotated[
        list[str] | None,
        typer.Option(
            "--problem", metavar="PERIOD", help="Period after, in the same form as the period before."
        ),
    ] = None
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            envvar="FLOWDIFF_LAKE",
            metavar="LAKE",
            help="Lake of the periods that name no lake themselves.",
        ),
    ] = None
    where: Annotated[
        str | None,
        typer.Option("--where", help="Filter for all periods: \"service.version = 'v2' and host = 'a'\"."),
    ] = None
    reference_where: Annotated[
        str | None, typer.Option("--reference-where", help="Filter for the reference only.")
    ] = None
    problem_where: Annotated[
        str | None, typer.Option("--problem-where", help="Filter for the problem period only.")
    ] = None

    @property
    def own_where(self) -> dict[str, str]:
        """Filters that apply to one sample only: name of the sample -> filter."""
        asked = (("reference", self.reference_where), ("problem", self.problem_where))
        return {name: text for name, text in asked if text is not None}


class TableFormat(StrEnum):
    """Output formats of a query's result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def period_of(lake: str, period: str, where: str | None = None) -> LakePeriod:
    """Find a period of a lake with its windows.

    Warns on standard error about interrupted imports and unsealed windows. Raises PeriodError, LakeError.
    """
    from analyze.scope import Lakes, resolve
    from schemas.periods import parse_period

    asked = parse_period(Lakes(lake).dated(period), now_ns=time.time_ns(), where=where)
    found = resolve(asked, default_lake=lake)
    warn_of_pending([found])
    return found


def warn_of_pending(periods: Iterable[LakePeriod]) -> None:
    """Print a line on standard error for each lake with an interrupted import or with unsealed windows."""
    from analyze.scope import notes

    say_notes(notes([*periods]))


def say_notes(notes: Iterable[str]) -> None:
    """Print each note as a line on standard error."""
    for note in notes:
        echo(f"flowdiff: {note}", err=True)


def named_values(option: str, given: Iterable[str] | None, *, filled: bool = False) -> dict[str, str]:
    """Name -> value of a repeated option NAME=VALUE. filled: refuse empty values.

    Raises ConfigError, also for a repeated name.
    """
    values: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and (value or not filled)):
            raise ConfigError(f"{option} {name}{equals}{value}: write NAME=VALUE.")
        if name in values:
            raise ConfigError(f"{option} {name}=… is given twice.")
        values[name] = value
    return values


def set_values(model: type[S], given: Iterable[str] | None) -> S:
    """Make settings from the values of a repeated option `--set NAME=VALUE`, NAME a field. Raises
    ConfigError.
    """
    from flowdiff.settings.given import Given, validated
    from flowdiff.settings.keys import keys_of, nearest

    keys = {".".join(key.field): key for key in keys_of(model)}
    found = []
    for name, value in named_values("--set", given).items():
        if name not in keys:
            near = nearest(name, [*keys], "docs/internals/serve.md")
            raise ConfigError(f"--set {name}: there is no such setting.{near}")
        found.append(Given(keys[name], value, "--set", f"--set {name}"))
    return validated(model, found)


def provisional_folder(context: typer.Context) -> Path:
    """New folder for files of unsealed windows, removed when the command of `context` ends."""
    from stitch.scratch import Scratch

    scratch = Scratch()
    context.call_on_close(scratch.close)
    return scratch.folder
