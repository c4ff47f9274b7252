"""Load of `flowdiff serve`: many readers while comparisons run, on a lake of two simulated days.

    PYTHONPATH=tests python tests/bench/bench_serve.py [READERS] [SECONDS] [LAKE]

Prints, for each page, answers, their slowest twentieth, and what was no 200; then the server's memory and CPU
time, both without its jobs. LAKE: measured as it is.
"""

from __future__ import annotations

import http.client
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from fixtures.served_site import PROBLEM, REFERENCE, Served, serving, simulated_lake

JOBS = 4
METHODS = ("robust", "variance", "distalyze", "paper")


def measured(served: Served, readers: int, seconds: float, compares: bool) -> None:
    report = served.get("/reports?format=json").json["reports"]
    paths = ["/", "/?span=4w", "/compare", "/incidents", "/reports"]
    paths += [f"/reports/{report[0]['id']}"] if report else []
    took: dict[str, list[float]] = {path: [] for path in paths}
    wrong: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def read(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        at = number
        while time.monotonic() < end:
            path, at = paths[at % len(paths)], at + 1
            began = time.perf_counter()
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    wrong[f"{path} {response.status}"] += 1
            except OSError as error:
                wrong[f"{path} {error}"] += 1
                connection.close()
                continue
            took[path].append(time.perf_counter() - began)
            time.sleep(1.0)  # a reader reads
        connection.close()

    for path in paths:
        served.get(path)
    if compares:
        for method in METHODS:
            served.post("/compare", {"method": method, "reference": REFERENCE, "problem": PROBLEM})
    threads = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for path, times in took.items():
        times.sort()
        slow = times[int(0.95 * len(times)) - 1] if times else float("nan")
        print(f"{path}: {len(times)} answers, 95 % within {slow * 1e3:.0f} ms")
    print(f"no 200: {dict(wrong) or 'none'}")
    if compares:
        print("jobs:", Counter(one["state"] for one in served.get("/compare?format=json").json["jobs"]))
    process = Path(f"/proc/{served.process.pid}")
    lines = (process / "status").read_text().splitlines()
    memory = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    ticks = (process / "stat").read_text().rpartition(")")[2].split()
    print(f"memory at most {memory / 1024:.0f} MB, CPU {(int(ticks[11]) + int(ticks[12])) / 100:.1f} s")


def main() -> None:
    readers = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    with TemporaryDirectory() as folder:
        lake = sys.argv[3] if len(sys.argv) > 3 else simulated_lake(Path(folder), 6_000, summarized=False)
        with serving(lake, "--set", f"jobs={JOBS}") as served:
            measured(served, readers, seconds, compares=len(sys.argv) <= 3)


if __name__ == "__main__":
    main()
