"""Run tasks on the executors of a Spark cluster; the only module that imports pyspark.

Each task is a Spark job with one partition. So Spark retries a task on another executor if its executor is
lost or the task raises, and no data passes through Spark's shuffle: tasks pass files through the exchange of
the import, and the collected result is small.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from schemas.errors import ConfigError, FlowdiffError, LakeError

P = ParamSpec("P")
T = TypeVar("T")
_QUIET: Final = {"spark.ui.showConsoleProgress": "false"}
"""Spark settings that an import has by default; `SparkCluster.conf` overrides them."""
_LONGEST_REASON: Final = 300
"""Maximum characters of Spark's message about a failed task that an error quotes."""


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """Cluster of Spark executors (`stitch.drivers.sharded.engines.Cluster`)."""

    master: str
    """URL of the cluster: `spark://…`, `k8s://…`, `yarn`, `local[2]`."""
    conf: Mapping[str, str] = field(default_factory=dict)
    at_once: int | None = None
    """Maximum number of tasks run concurrently; None: the number of cores that Spark has after its start."""

    @contextmanager
    def executor(self, stage: str) -> Iterator[tuple[Executor, int]]:  # noqa: ARG002 - none is needed
        """Start the executors (see `Cluster.executor`)."""
        # Python of the executors: their image is ours, if nobody says otherwise.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = SparkConf().setMaster(self.master).setAppName("flowdiff")
        conf.setAll([*{**_QUIET, **self.conf}.items()])
        try:
            context = SparkContext(conf=conf)
        except (Py4JError, PySparkException) as error:
            raise ConfigError(
                f"Spark at '{self.master}' did not start: {_reason(error)}.",
                remedy="Check --master and --conf; Spark needs Java 17.",
            ) from error
        try:
            at_once = self.at_once or context.defaultParallelism
            with _Executors(context, at_once) as executor:
                yield executor, at_once
        finally:
            context.stop()


class _Executors(Executor):
    """Executor whose threads each wait for one Spark job."""

    def __init__(self, context: SparkContext, at_once: int) -> None:
        self._context = context
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="spark")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call as a Spark job; return a future with its result."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for running tasks; after an exception in the block, cancel them."""
        if kind is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._context.cancelAllJobs()
        self._threads.shutdown()

    def _run(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Run a task as a Spark job. Raises the task's FlowdiffError; LakeError if Spark gave the task up."""
        task = pickle.dumps((fn, args, kwargs))
        try:
            (done,) = self._context.parallelize([task], 1).map(_done).collect()
        except Py4JError as error:
            raise LakeError(
                f"Spark gave a task up: {_reason(error)}.",
                remedy="Nothing was committed; the logs of the executors say more.",
            ) from error
        result: T
        result, refusal = pickle.loads(done)
        if refusal is not None:
            raise refusal
        return result


def _done(task: bytes) -> bytes:
    """Run a pickled task on an executor; return its pickled result. A FlowdiffError is also returned, because
    Spark would retry a task that raises."""
    # The pool that Arrow picks by default takes a third more CPU here, in page faults.
    pa.set_memory_pool(pa.system_memory_pool())
    fn, args, kwargs = pickle.loads(task)
    try:
        return pickle.dumps((fn(*args, **kwargs), None))
    except FlowdiffError as error:
        return pickle.dumps((None, error))


def _reason(error: Exception) -> str:
    """Last line of Spark's error message, or of the Python traceback in it, without Java stack traces."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line[0].isspace()]
    return lines[-1].lstrip(": ").rstrip(".")[:_LONGEST_REASON]
