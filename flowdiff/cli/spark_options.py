"""Options of commands whose work can run on a Spark cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.options import named_values
from flowdiff.extras import needed
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from stitch.drivers.spark.executors import SparkCluster


class EngineName(StrEnum):
    """Kind of engine that does the work of a command."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Options for the engine of a command, and for access to a Spark cluster."""

    engine: Annotated[
        EngineName,
        typer.Option(
            "--engine",
            help="Where the work runs: processes of this machine, or executors of a Spark cluster.",
        ),
    ] = EngineName.LOCAL
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            help="With --engine spark: URL of the cluster: spark://HOST:7077, k8s://…, yarn, local[2].",
            metavar="URL",
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            help="With --engine spark: a Spark setting KEY=VALUE; may be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None

    def cluster(self, workers: int | None) -> SparkCluster | None:
        """Spark cluster with `workers` concurrent tasks; None if the work runs on this machine.

        Raises ConfigError.
        """
        if self.engine is EngineName.LOCAL:
            if self.master is not None or self.conf:
                raise ConfigError("--master and --conf are of Spark.", remedy="Add --engine spark.")
            return None
        if self.master is None:
            raise ConfigError("--engine spark needs a cluster.", remedy="Name it: --master URL.")
        settings = named_values("--conf", self.conf)
        with needed():
            from stitch.drivers.spark.executors import SparkCluster
        return SparkCluster(self.master, settings, workers)
