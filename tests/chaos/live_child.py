"""One ingesting process for chaos runs, with short intervals. SIGTERM stops it gracefully.

`--accept-gaps`: a person says to go on. `--drain LANES`, the last words: once it has so many lanes and read
them to their end, it publishes all and stops.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from oracles.is_read import is_read

from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.kafka_source import KafkaSource
from schemas.errors import InputError
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.live.live_run import LiveIdentity, LiveRun
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.drivers.live.watch import Watch
from stitch.lake.layout import ensure_lake
from stitch.lake.store import LocalStore

SETTINGS = LiveSettings(
    window_length_ns=NS_PER_MINUTE,
    commit_interval_ns=NS_PER_SECOND,
    lateness_ns=30 * NS_PER_SECOND,
    idle_ns=60 * NS_PER_SECOND,
)


class Told(Watch):
    """Says what becomes of lanes, for whoever has to find out what went wrong."""

    def lane(self, lane: int, state: str, why: str) -> None:
        print(f"{time.time():.3f} lane {lane} {state} {why}", flush=True)

    def trouble(self, why: str | None) -> None:
        print(f"{time.time():.3f} trouble {why}", flush=True)


def main(bootstrap: str, topic: str, group: str, lake: str, member: str, *more: str) -> None:
    store = LocalStore.at(Path(lake))
    info = ensure_lake(store, SETTINGS.window_length_ns, NS_PER_MINUTE, "chaos")
    source = KafkaSource(
        KafkaSettings(
            bootstrap=tuple(bootstrap.split(",")),
            topics=(topic,),
            group=group,
            default_format="native",
            session_timeout_ms=3_000,
            heartbeat_interval_ms=500,
            request_timeout_ms=5_000,
            static_member_id=member if member.startswith("static") else None,
        )
    )
    settings = SETTINGS.model_copy(update={"accept_gaps": "--accept-gaps" in more})
    run = LiveRun(source, store, info, settings, LiveIdentity(member, "chaos"), SteadyClock(), Told())
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    drain = "--drain" in more
    print("running", flush=True)
    while not stopped:  # halted lanes or not, as `stay_halted` says
        run.turn(0.2)
        if drain and is_read(run.status()) and len(run.status().lanes) == int(more[-1]):
            break
    run.stop(whole=drain)
    print("halted" if run.halted else "stopped", run.halted, flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except InputError as error:  # no broker that answers: as `flowdiff ingest` ends, to be started again
        print(error, flush=True)
        sys.exit(InputError.exit_code)
