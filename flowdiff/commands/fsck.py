"""`flowdiff fsck`: check a lake against its commits."""

from __future__ import annotations

import typer

from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from flowdiff.cli.upkeep import no_lake


def command(
    lake: LakeOption,
) -> None:
    """Check a lake against its commits. Exit code 0: nothing is wrong. 1: something is."""
    from stitch.drivers.build.log_check import check_log
    from stitch.lake.fsck import check
    from stitch.lake.place import local_path, open_store
    from stitch.scratch import Scratch

    folder = local_path(lake)
    if folder is not None and not folder.is_dir():
        raise no_lake(lake)
    store = open_store(lake)
    findings = check(store, lake)
    with Scratch() as scratch:
        findings += check_log(store, lake, scratch)
    for finding in findings:
        echo(f"{finding.invariant}: {finding.detail}")
    echo("1 error" if len(findings) == 1 else f"{len(findings)} errors")
    raise typer.Exit(1 if findings else 0)
