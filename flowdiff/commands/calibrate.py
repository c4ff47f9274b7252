"""`flowdiff calibrate`: number of findings in comparisons of normal periods of a lake."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowdiff.cli.named_settings import SetOption, chosen_settings, help_all_option
from flowdiff.cli.options import JsonOption, LakeOption, WhereOption, warn_of_pending
from flowdiff.cli.progress import counted_progress
from flowdiff.cli.settings_options import Options, takes_settings
from flowdiff.cli.terminal import echo, echo_json
from schemas.calibration import CalibrationRecord, CalibrationSettings
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from analyze.calibrate import Run
    from analyze.methods.port import Chosen
    from analyze.profile.history import NamedSamples
    from analyze.refine.settings import RefineSettings


@takes_settings
def command(
    lake: LakeOption,
    period: Annotated[
        list[str] | None,
        typer.Option(
            help="Periods to choose from, as in `compare`; may be repeated. Default: the whole lake."
        ),
    ] = None,
    where: WhereOption = None,
    method: Annotated[str, typer.Option(help="Method of comparison.")] = "robust",
    settings: SetOption = None,
    help_all: Annotated[bool, help_all_option()] = False,
    save: Annotated[
        bool, typer.Option(help="Store the result in the lake; reports show the newest one.")
    ] = True,
    as_json: JsonOption = False,
    *,
    calibration: Annotated[CalibrationSettings, Options()],
) -> None:
    """Compare ordinary periods of a lake with each other and count the findings, all of which are false.

    Pairs of periods are chosen at random (by the seed) from windows without an obvious event; the other
    windows are their history. Later reports of the lake show how many false findings its settings gave.
    """
    from analyze.calibrate import calibrate, keep_record
    from analyze.scope import Lakes
    from flowdiff.cli.version import version
    from schemas.ranges import parse_ranges

    del help_all  # it ends the command before
    (chosen,), refine = chosen_settings([method], settings or ())
    if not chosen.method.samples.allows(2):
        raise ConfigError(f"The method '{method}' takes {chosen.method.samples.text}, not a pair.")
    lakes = Lakes(lake)
    asked = parse_ranges(period or ["all"], now_ns=time.time_ns(), where=where)
    found = [lakes.sealed_part(part) for part in asked]
    if len({part.root for part in found}) > 1:
        raise ConfigError("A calibration is of one lake, and the periods name several.")
    warn_of_pending(found)
    with counted_progress("") as watch:
        record = calibrate(
            asked,
            lakes,
            chosen,
            refine,
            calibration,
            _pipeline(chosen, refine),
            watch=lambda what, done, total: watch(done, total, what),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            created_by=f"flowdiff {version()}",
        )
    _print(record, as_json=as_json)
    if save:  # after printing: if storing fails, the result is not lost
        kept = keep_record(found[0], record)
        if not as_json:
            echo(f"Kept: {kept}")


def _print(record: CalibrationRecord, *, as_json: bool) -> None:
    if as_json:
        echo_json(record.model_dump_json(indent=1))
        return
    echo(record.sentence)
    echo(f"Verdicts: {', '.join(f'{n} {name}' for name, n in record.verdicts.items())}.")
    if record.unsteady:
        echo(f"Left out as not ordinary: {record.unsteady} of {record.unsteady + record.windows} windows.")


def _pipeline(chosen: Chosen[Any], refine: RefineSettings) -> Run:
    """Make a function that compares as `flowdiff compare` does, without writing a report."""
    from analyze.compare import compare
    from analyze.profile.history import read_samples
    from analyze.report.gate import Outcome

    def run(samples: NamedSamples, history: NamedSamples) -> Outcome:
        read = read_samples(samples, history, refine, can_use=not chosen.method.needs_requests)
        return compare(read.compared, [chosen], history=read.history, refined=refine)

    return run
