"""Run loop of live ingestion: one process, one log, any number of lanes.

Each iteration (`turn`) handles changes of the partition assignment, then payloads, then lanes; it is short,
so that the consumer group sees a live member. Payloads are decoded in one thread pool and lanes run in
another (`lane_work`), which consumes the payloads of a stream in order. A permanent error of a lane halts
only that lane, with a reason. After a transient error (disk full, store unreachable) reading pauses, the
process stays in the consumer group, and the lane is retried. A lane resumes at its last commit; a new one
starts where the settings say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from ingest.content_format import ContentFormat
from ingest.source import (
    CorruptStreamError,
    CutBackError,
    GapError,
    LiveSource,
    Payloads,
    Place,
    StreamChange,
    StreamError,
    StreamId,
    TopicChangedError,
)
from schemas.errors import FlowdiffError, InputError, LakeError
from stitch.drivers.live.build_work import BuildWork
from stitch.drivers.live.decoders import Decoders
from stitch.drivers.live.election import Election, NoElection
from stitch.drivers.live.lane_work import (
    Commit,
    Committed,
    LaneWork,
    RetryStates,
    Taken,
    passes_by_itself,
)
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Clock
from stitch.drivers.live.streams import OwnStreams, by_lane
from stitch.drivers.live.topic_format import OtherFormatError
from stitch.drivers.live.watch import LaneState, LaneStatus, LiveStatus, Watch
from stitch.lake.chain import CommitTakenError
from stitch.lake.layout import LakeInfo
from stitch.lake.store import Store, UncertainError


@dataclass(frozen=True, slots=True)
class LiveIdentity:
    """Identity of a live process, recorded in its commits."""

    owner: str
    """Unique name of the process."""
    created_by: str
    """Program and version, for example `flowdiff 0.9.0`."""


def start_stream(source: LiveSource, lane: LiveLane, stream: StreamId, *, accept_gaps: bool) -> Place:
    """Seek the source to the next message of a lane's stream, and return the place of that message.

    accept_gaps: if messages before it are lost, resume behind them instead of raising StreamError.
    """
    place = lane.place(stream)
    try:
        return source.start(stream, place)
    except (GapError, CutBackError, TopicChangedError) as error:
        if not accept_gaps:
            raise
        first = None if place is None or isinstance(error, TopicChangedError) else error.first
        return source.start(stream, None if place is None or first is None else Place(first, place.topic_id))


LANES_AT_ONCE: Final = 2
"""Number of threads that run steps of lanes; they run in parallel, as numpy, Arrow, zstd and I/O release
Python's lock."""
BUSY_POLL_S: Final = 0.05
"""Maximum time, s, that a poll waits for messages while other messages are being decoded."""
RESUME_SHARE: Final = 0.7
"""Share of the lanes' memory limit, in [0, 1]: paused reading resumes when lanes use less."""


class LiveRun:
    """Live ingestion into one lake. One thread runs it; any thread may call `status`."""

    def __init__(
        self,
        source: LiveSource,
        store: Store,
        info: LakeInfo,
        settings: LiveSettings,
        identity: LiveIdentity,
        clock: Clock,
        watch: Watch,
        pool: Executor | None = None,
        build_pool: Executor | None = None,
        election: Election | None = None,
        lake: str = "LAKE",
    ) -> None:
        """pool: thread pool for lanes (default: LANES_AT_ONCE threads); build_pool: thread pool for the
        builder (default: one thread); `stop` shuts both down. election: election of the process that builds
        windows; None: every process builds. lake: name of the lake in messages."""
        self._source = source
        self._store = store
        self._info = info
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._watch = watch
        self._ours = OwnStreams()
        self._lanes: dict[int, LiveLane] = {}
        self._halted: dict[int, str] = {}
        self._later: dict[int, str] = {}
        """Number of an assigned lane whose takeover failed and is retried -> reason for the failure."""
        self._by_name: dict[str, StreamId] = {}
        self._retries = RetryStates(lambda: clock().now_ns)
        self._decoders = Decoders(settings.decode, settings.memory_bytes)
        self._work = LaneWork(clock, pool or ThreadPoolExecutor(LANES_AT_ONCE, "lane"))
        self._build = BuildWork(
            store,
            lake,
            settings,
            identity.owner,
            identity.created_by,
            clock,
            build_pool or ThreadPoolExecutor(1, "build"),
            election or NoElection(),
            watch.committed,
        )
        self._committed = False
        """True if a lane committed since the builder was last called (`BuildWork.turn`)."""
        self._formats: dict[str, ContentFormat] = {}
        """Topic -> recogniser of the format of its messages."""
        self._reported: set[tuple[int, str]] = set()
        """(lane number, topic) pairs for which a change of format was reported to the watch."""
        self._full = False
        self._trouble: str | None = None
        self._build_trouble: str | None = None
        self._stopping = False
        self._status = LiveStatus(clock().now_ns, (), paused=False, trouble=None, stopping=False)

    # -- what others ask ------------------------------------------------------------------------------------

    def status(self) -> LiveStatus:
        """Status after the last call of `turn` or `stop`. Thread-safe."""
        return self._status

    @property
    def halted(self) -> dict[int, str]:
        """Number of each halted lane -> reason; only an operator can resume it."""
        return dict(self._halted)

    @property
    def all_halted(self) -> bool:
        """True if there are assigned lanes and every one of them is halted."""
        return bool(self._halted) and not self._lanes and not self._later

    # -- a turn ---------------------------------------------------------------------------------------------

    def turn(self, timeout_s: float) -> None:
        """Run one iteration: handle assignment changes, poll for up to `timeout_s` seconds, start steps of
        idle lanes and of the builder, update the status."""
        self._own(self._source.change())
        self._take_over_again()
        if self._work.bytes > self._settings.queue_share * self._settings.memory_bytes:
            self._work.pause(min(timeout_s, BUSY_POLL_S))
        else:
            is_busy = bool(self._decoders) or self._work.bytes > 0
            payloads = self._poll(min(timeout_s, BUSY_POLL_S) if is_busy else timeout_s)
            # Of a lane that halted, it is read again by whoever takes it over.
            if payloads is not None and (stream := self._by_name[payloads.stream]).lane in self._lanes:
                self._decoders.give(stream, self._named(stream, payloads), self._clock().now_ns)
        self._take()
        self._collect()
        self._go_on()
        self._collect()
        self._build.turn(committed=self._committed)
        self._committed = False
        self._tell_build()
        self._hold_back()
        self._tell()

    def stop(self, *, whole: bool = False) -> bool:
        """Commit everything that was read, release the lanes and leave the consumer group.

        whole: the input has ended, so all windows are built. Returns True if everything read was committed
        and, if `whole`, built; otherwise the next owner of the lanes reads the rest again.
        """
        self._stopping = True
        self._tell()
        latest_ns = None
        if not whole:
            self._build.stop()
        self._settle()
        if whole:
            times = [self._build.latest_ns(), *(lane.latest_ns for lane in self._lanes.values())]
            latest_ns = max((at for at in times if at is not None), default=None)
        for number in sorted(self._lanes):
            self._work.commit(self._lanes[number], whole=whole, latest_ns=latest_ns)
        self._work.rest()
        self._collect()
        is_whole = not self._halted and all(lane.state is LaneState.RUNNING for lane in self._lanes.values())
        self._source.release([stream for lane in self._lanes.values() for stream in lane.streams])
        for number in sorted(self._lanes):
            self._drop(number, "released")
        self._decoders.close()
        self._work.close()
        self._source.close()
        if whole:
            self._build.finish()
            self._tell_build()
        self._build.close()
        self._tell()
        is_built = not whole or self._build.status.trouble is None
        return is_whole and is_built and not self._later

    # -- ownership ------------------------------------------------------------------------------------------

    def _own(self, change: StreamChange) -> None:
        """Apply a change of the streams assigned to this process: release lost streams and streams that the
        consumer group asks back, take over gained ones."""
        if not change:
            return
        self._settle()
        for number, streams in by_lane(change.lost):
            self._forgo(number, streams)
            # What came of them must not be committed by us; the rest of the lane begins again where its last
            # commit was.
            if number in self._lanes and set(streams).intersection(self._lanes[number].streams):
                self._drop(number, "lost")
                self._gain(number)
        for number, streams in by_lane(change.asked):
            self._give_up(number, streams)
        self._source.release(change.asked)
        for number, streams in by_lane(change.gained):
            self._ours.gain(number, streams)
            self._halted.pop(number, None)
            self._gain(number)

    def _forgo(self, number: int, streams: Iterable[StreamId]) -> None:
        """Unassign streams of the lane with this number; if the lane has no other streams here, clear its
        retries and reasons."""
        if not self._ours.forgo(number, streams):
            self._retries.forget(number)
            self._later.pop(number, None)
            self._halted.pop(number, None)

    def _take_over_again(self) -> None:
        """Repeat failed takeovers of lanes whose retry is due."""
        if self._retries.to_take_over():
            self._settle()
            for number in self._retries.to_take_over():
                self._gain(number)

    def _gain(self, number: int) -> None:
        """Take over the lane with this number unless this process owns it, add its assigned streams, and
        commit."""
        if not self._ours[number]:
            return
        self._retries.tried(number)
        try:
            if number not in self._lanes:
                # What was read of it before is not what its last commit goes on with.
                self._take(drain=True)
                self._lanes[number] = LiveLane(
                    self._store,
                    self._info,
                    number,
                    self._settings,
                    owner=self._identity.owner,
                    created_by=self._identity.created_by,
                    cluster_id=self._source.cluster_id,
                    young=self._build.young,
                )
                self._watch.lane(number, "gained", "")
                if changed := self._lanes[number].changed_settings:
                    self._watch.lane(number, "set otherwise", changed)
            lane = self._lanes[number]
            streams = [stream for stream in self._ours[number] if stream not in lane.streams]
            for stream in streams:
                self._by_name[stream.name] = stream
                started = start_stream(self._source, lane, stream, accept_gaps=self._settings.accept_gaps)
                lane.begin(stream, started, self._clock())
                self._formats.pop(stream.topic, None)  # the topic may be another one of its name
            if self._full:
                self._source.pause(streams)
            self._later.pop(number, None)
            self._commit(number)  # a lane that says where it begins holds the seal for what is to come
        except FlowdiffError as error:  # an InputError of no stream: the log did not answer
            why, passes = str(error), isinstance(error, InputError) and not isinstance(error, StreamError)
        except OSError as error:
            why = f"The lake cannot be taken over: {error.strerror or error}."
            passes = passes_by_itself(error)
        else:
            return
        if passes:
            self._put_off(number, why)
        else:
            self._halt(number, why)

    def _put_off(self, number: int, why: str) -> None:
        """Discard an assigned lane whose takeover failed for a transient reason (`why`), pause its streams,
        and schedule a retry."""
        self._lanes.pop(number, None)
        self._work.forget(number)
        self._source.pause(self._ours[number])
        self._retries.put_off(number)
        if number not in self._later:
            self._watch.lane(number, "waiting", why)
        self._later[number] = why

    def _give_up(self, number: int, asked: Iterable[StreamId]) -> None:
        """Commit the lane with this number, then release its streams `asked`, which the consumer group is
        about to reassign."""
        self._commit(number)
        self._forgo(number, asked)  # behind the commit, which may have put the lane off
        lane = self._lanes.get(number)
        if lane is not None:
            for stream in set(asked).intersection(lane.streams):
                lane.end(stream)
            if not lane.streams:
                self._drop(number, "released")

    def _drop(self, number: int, how: str, why: str = "") -> None:
        """Discard a lane without committing, and report to the watch the new state `how` and the reason
        `why`."""
        lane = self._lanes.pop(number, None)
        self._work.forget(number)
        if lane is not None:
            self._watch.lane(number, how, why)

    def _halt(self, number: int, why: str) -> None:
        """Halt a lane for the reason `why`, until an operator acts; the other lanes continue."""
        lane = self._lanes.get(number)
        self._source.pause(self._ours[number])
        self._retries.forget(number)
        self._drop(number, "halted", why)
        self._later.pop(number, None)
        self._halted[number] = why
        if lane is None:
            self._watch.lane(number, "halted", why)

    # -- payloads -------------------------------------------------------------------------------------------

    def _poll(self, timeout_s: float) -> Payloads | None:
        """Poll the source for up to `timeout_s` seconds; None: no messages. An error of a stream halts the
        stream's lane, or schedules a new takeover if gaps are accepted."""
        try:
            payloads = self._source.poll(timeout_s)
        except StreamError as error:
            self._settle()
            lane, is_lost = error.stream.lane, not isinstance(error, CorruptStreamError)
            if lane in self._lanes:
                self._commit(lane)  # what came before it is good
            if is_lost and self._settings.accept_gaps:
                self._put_off(lane, str(error))  # who takes it over finds where it goes on
            else:
                self._halt(lane, str(error))
            return None
        trouble = self._source.trouble
        if trouble != self._trouble:
            self._trouble = trouble
            self._watch.trouble(trouble)
        return payloads

    def _named(self, stream: StreamId, payloads: Payloads) -> Payloads:
        """Copy of `payloads` in which the format AUTO is replaced by the recognised one; the format recorded
        in the lane's commits is tried first."""
        if stream.topic not in self._formats:
            before = self._lanes[stream.lane].format_of(stream.topic)
            self._formats[stream.topic] = ContentFormat(self._settings.decode, before)
        return self._formats[stream.topic].named(payloads)

    def _take(self, *, drain: bool = False) -> None:
        """Queue decoded payloads for their lanes, in order. drain: wait until all gathered messages are
        decoded."""
        for stream, payloads, decoded in self._decoders.take(self._clock().now_ns, drain=drain):
            lane = self._lanes.get(stream.lane)
            if lane is None or stream not in lane.streams:
                continue
            self._tell_format(lane, stream.topic, payloads.format)
            self._work.give(Taken(stream, payloads, decoded))
            self._watch.decoded(
                payloads.stream,
                len(payloads.payloads) + len(payloads.rejects),
                sum(map(len, payloads.payloads)),
                decoded.events.num_rows,
                decoded.refused,
            )

    def _tell_format(self, lane: LiveLane, topic: str, format_: str | None) -> None:
        """Report to the watch, once per lane and topic, that the format of a topic's messages changed to
        `format_`."""
        before = lane.format_of(topic)
        if None in (before, format_) or before == format_ or (lane.number, topic) in self._reported:
            return
        self._reported.add((lane.number, topic))
        self._watch.lane(
            lane.number, "set otherwise", f"topic {topic}: {before} until now, {format_} from now on"
        )

    def _go_on(self) -> None:
        """Start a step of every idle lane; a lane in state WAITING commits only if its retry is due."""
        ends = self._source.ends()
        for number, lane in sorted(self._lanes.items()):
            commit = Commit.DUE
            if lane.state is LaneState.WAITING:
                commit = Commit.NOW if self._retries.may_retry(number) else Commit.NEVER
            self._work.begin(lane, ends, commit)

    def _settle(self) -> None:
        """Wait until lanes have consumed all messages that were read and no step is running."""
        self._take(drain=True)
        self._work.rest()
        self._collect()
        for lane in self._lanes.values():
            self._work.begin(lane, None)
        self._work.rest()
        self._collect()

    def _collect(self) -> None:
        """Handle the results of finished steps."""
        for number, result in self._work.finished():
            self._account(number, result)

    # -- commits --------------------------------------------------------------------------------------------

    def _commit(self, number: int) -> None:
        """Commit the lane with this number, which must have no running step; wait for the commit and handle
        its result."""
        if number in self._lanes:
            self._work.commit(self._lanes[number])
            self._work.rest(number)
            self._collect()

    def _account(self, number: int, result: Callable[[], Committed | None]) -> None:
        """Handle the result of a lane's step: report the commit; after an error, retry the lane, halt it, or
        take it over again."""
        lane = self._lanes[number]
        try:
            committed = result()
        except CommitTakenError as error:
            self._lost_to_another(number, error.message)  # taken back by itself: there is nothing to do
        except UncertainError as error:
            # Taken over anew: its chain knows what became of the last commit.
            self._drop(number, "lost", f"The lake did not say whether it took a commit: {error}.")
            self._gain(number)
        except (LakeError, OtherFormatError) as error:
            self._halt(number, str(error))
        except OSError as error:
            self._wait(number, error)
        else:
            if committed is None:
                return
            self._committed = True
            self._retries.committed(number)
            if lane.state is LaneState.WAITING:
                lane.state, lane.why = LaneState.RUNNING, ""
                self._watch.lane(number, "running", "")
            self._watch.committed(*committed)
            self._source.commit_offsets({stream: lane.read_to(stream) for stream in lane.streams})

    def _lost_to_another(self, number: int, why: str) -> None:
        """Handle the takeover, by another process, of a lane assigned to this one: take it over again later,
        or halt it."""
        if self._retries.lost(number):
            self._source.pause(self._ours[number])
            self._drop(number, "lost", why)
            self._later[number] = why
        else:
            self._halt(number, f"{why} Is a second group at work on this lake?")

    def _wait(self, number: int, error: OSError) -> None:
        """Handle a failed commit: put the lane into state WAITING, which pauses reading, or halt it after too
        many failures."""
        lane = self._lanes[number]
        why = f"Writing the lake failed: {error.strerror or error}."
        if not self._retries.failed(number, error):
            self._halt(number, why)
            return
        lane.why = why
        if lane.state is LaneState.RUNNING:
            lane.state = LaneState.WAITING
            self._watch.lane(number, "waiting", why)

    # -- holding back ---------------------------------------------------------------------------------------

    def _hold_back(self) -> None:
        """Pause reading while lanes use too much memory or wait for a retry; otherwise resume it."""
        waiting = [n for n, lane in self._lanes.items() if lane.state is LaneState.WAITING]
        limit = self._settings.lanes_share * self._settings.memory_bytes
        full = self._held() > limit * (RESUME_SHARE if self._full else 1) or bool(waiting)
        if full != self._full:
            self._full = full
            streams = [stream for lane in self._lanes.values() for stream in lane.streams]
            (self._source.pause if full else self._source.resume)(streams)

    def _held(self) -> int:
        """Bytes of events that lanes buffer or have queued."""
        return self._work.bytes + sum(lane.bytes for lane in self._lanes.values())

    def _tell_build(self) -> None:
        if self._build.status.troubles != self._build_trouble:
            self._build_trouble = self._build.status.troubles
            self._watch.building(self._build_trouble)

    def _tell(self) -> None:
        """Replace `status` by the current one."""
        ends = self._source.ends() if not self._stopping else {}
        statuses = {n: LaneStatus(n, LaneState.WAITING, why) for n, why in self._later.items()}
        statuses |= {number: lane.status(ends) for number, lane in self._lanes.items()}
        self._status = LiveStatus(
            now_ns=self._clock().now_ns,
            lanes=tuple(statuses[number] for number in sorted(statuses)),
            paused=self._full,
            trouble=self._trouble,
            stopping=self._stopping,
            halted=tuple(sorted(self._halted.items())),
            build=self._build.status,
        )
