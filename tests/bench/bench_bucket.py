"""A lake in a bucket beside the same lake in a folder: import, first and second comparison.

Run: `python tests/bench/bench_bucket.py TRACES REFERENCE PROBLEM [DELAY_MS]`. The server is moto on this
machine, so its CPU is in the way; DELAY_MS: a proxy lets each request wait so long, as a network would.
Prints wall time and CPU seconds of the command alone, and requests.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracles.bucket_server import moto_server
from oracles.cutting_proxy import cutting_proxy


def timed(what: str, command: list[str], environ: dict[str, str], requests: list[int]) -> None:
    """Run a command of flowdiff, and print what it took."""
    before, seen, started = resource.getrusage(resource.RUSAGE_CHILDREN), requests[0], time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "flowdiff", *command],
        env={**os.environ, **environ},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what:32} {wall:6.1f} s wall {cpu:6.1f} s CPU {requests[0] - seen:6} requests", flush=True)


def main(traces: str, reference: str, problem: str, delay_ms: str = "0") -> None:
    """See the module."""
    with (
        tempfile.TemporaryDirectory() as name,
        moto_server(Path(name) / "log") as server,
        cutting_proxy(server.host_port) as proxy,
    ):
        proxy.delay_s = float(delay_ms) / 1e3
        environ = {
            **server.environ,
            "AWS_ENDPOINT_URL": proxy.endpoint,
            "FLOWDIFF_CACHE": f"{name}/cache",
            "FLOWDIFF_BUCKET_TIMEOUT": "60",
        }
        compare = ["compare", "--reference", reference, "--problem", problem]
        for lake in (f"{name}/lake", server.new_lake()):
            where = "bucket" if lake.startswith("s3://") else "folder"
            timed(f"{where}: import", ["import", traces, "--lake", lake], environ, proxy.requests)
            timed(f"{where}: compare, first", [*compare, "--lake", lake], environ, proxy.requests)
            timed(f"{where}: compare, again", [*compare, "--lake", lake], environ, proxy.requests)
            timed(f"{where}: windows", ["windows", "--lake", lake], environ, proxy.requests)
            timed(f"{where}: fsck", ["fsck", lake], environ, proxy.requests)


if __name__ == "__main__":
    main(*sys.argv[1:])
