"""Play a described system: requests that visit operations, spans of what each visit did, faults that act.

A system is a description (`described.py`); what it does in a window follows from the seed and the window's
number alone. Times are log-normal with a heavy tail; services drift between windows, pods pause as a whole,
clocks are skewed, spans get lost and requests come in bursts, as far as the description says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluation.systems.spans import CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER, MadeSystem

NS_PER_MS = 1_000_000
WINDOW_NS = 60_000 * NS_PER_MS
NETWORK_MS = 0.2
TAIL_FACTOR = 6.0
PAUSE_MS = 120.0
QUEUED_MS = 5.0
COLD_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Call:
    """One operation calls another."""

    to: str
    """`service/operation`."""
    times: int | tuple[int, int] = 1
    share: float = 1.0
    """Of the visits that make the call at all."""
    together: bool = False
    """Its repeats run at once."""
    message: bool = False
    """It is put into a queue: nobody waits for it."""


Step = Call | tuple[Call, ...]
"""Calls of a tuple run at once."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a service does when it is asked."""

    name: str
    """`service/operation`; `{user}` is the value that the request's attribute has."""
    ms: float
    """Median of the time that it takes itself."""
    steps: tuple[Step, ...] = ()
    sigma: float = 0.5
    tail: float = 0.02
    """Share of the visits that take `TAIL_FACTOR` times as long."""
    fails: float = 0.0

    @property
    def service(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is done to a service or an operation in one window; its service is the truth."""

    what: str
    at: str
    """`service` or `service/operation`."""
    slower: float = 1.0
    plus_ms: float = 0.0
    fails: bool = False
    waits_ms: float = 0.0
    """Messages wait longer for it."""
    steps: tuple[Step, ...] | None = None
    """It makes these calls instead."""
    share: float = 1.0
    """Of the visits."""
    pod: int | None = None
    """Only at this pod."""
    of: tuple[str, str] | None = None
    """Only for requests with this attribute."""
    part: tuple[float, float] = (0.0, 1.0)
    """Of the window."""
    truth: str = ""
    """Who is to be named, where that is not the service."""

    @property
    def service(self) -> str:
        return self.truth or self.at.partition("/")[0]


@dataclass(frozen=True, slots=True)
class System:
    """A description: what there is, what is done with it, how it is recorded."""

    name: str
    operations: tuple[Operation, ...]
    roots: Mapping[str, float]
    """Operation -> its weight in the traffic."""
    faults: tuple[Fault, ...]
    requests: int = 250
    """A window of a minute."""
    form: str = "otlp"
    pods: Mapping[str, int] = field(default_factory=dict)
    """Service -> how many; else one."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Service -> version of each pod."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Service that records nothing -> attribute by which its callers name it."""
    callers_record: bool = True
    """A call is a span of the caller, too."""
    stops: bool = False
    """An operation makes no further call after one that failed."""
    clients: int = 0
    """So many clients wait for each answer before they ask again; 0: requests come as they come."""
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the root's span; each request has one of the values."""
    bursts: float = 0.2
    """Share of the requests that come at once with the one before."""
    pauses: float = 1.0
    """Of a pod, a minute."""
    skew_ms: float = 1.0
    lost: float = 0.002
    drift: float = 0.08
    """Standard deviation of the log of a service's times between windows."""
    cold_ms: float = 0.0
    """A pod serves some twenty visits, and starts for so long before the first."""


class Visit(NamedTuple):
    """Where a request is: what is needed to write a span there. A tuple, because a system has many."""

    trace: str
    attributes: dict[str, str]
    span: str = ""
    service: str = ""
    pod: int = 0
    host: str = ""
    version: str = ""


class Playing(MadeSystem):
    """A system in one window, with a fault or without."""

    def __init__(self, system: System, fault: Fault | None, window: int, begin_ns: int, seed: int) -> None:
        super().__init__(random.Random(f"{seed}/{system.name}/{window}"), system.name)
        self.system, self.acting, self.begin_ns = system, fault, begin_ns
        self.operations = {operation.name: operation for operation in system.operations}
        fixed = random.Random(f"{seed}/{system.name}")
        self.skew = {s: round(fixed.gauss(0, system.skew_ms) * NS_PER_MS) for s in self._services()}
        self.drifted = {s: self.rng.lognormvariate(0, system.drift) for s in self._services()}
        self.paused: dict[str, list[int]] = {}
        self.started: dict[str, int] = {}

    def _services(self) -> list[str]:
        return sorted({operation.service for operation in self.system.operations})

    def play(self) -> None:
        """All requests of the window."""
        if self.system.clients:
            for _ in range(self.system.clients):
                now = self.begin_ns + self.ms(500)
                while now < self.begin_ns + WINDOW_NS:
                    now = self.request(now) + self.ms(1000)
            return
        for at in self._arrivals():
            self.request(at)

    def _arrivals(self) -> Iterator[int]:
        at = 0.0
        moments = [at := at + self.rng.expovariate(1) * (self.rng.random() >= self.system.bursts)
                   for _ in range(self.system.requests)]  # fmt: skip
        for moment in moments:
            yield self.begin_ns + int(moment / moments[-1] * 0.98 * WINDOW_NS)

    def request(self, at: int) -> int:
        """One request; when it ends."""
        attributes = {key: self.rng.choice(values) for key, values in self.system.attributes.items()}
        root = self.rng.choices(list(self.system.roots), list(self.system.roots.values()))[0]
        return self.visit(Visit(self.new_id(128), attributes), root, SERVER, at)[0]

    def visit(self, here: Visit, name: str, kind: int, at: int) -> tuple[int, bool]:
        """An operation does its work: (when it ends, whether it failed). `here` is who asked."""
        operation = self.operations[name]
        service = operation.service
        pod = self.rng.randrange(self.system.pods.get(service, 1))
        fault = self._acts(operation, pod, at, here.attributes)
        versions = self.system.versions.get(service, ("",))
        version = versions[pod % len(versions)]
        own = Visit(here.trace, here.attributes, self.new_id(), service, pod, f"{service}-{pod}", version)
        now = at
        if self.system.cold_ms:
            own, now = self._start(own, at)
        steps = operation.steps if fault is None or fault.steps is None else fault.steps
        took = operation.ms * self.rng.lognormvariate(0, operation.sigma) * self.drifted[service]
        took *= TAIL_FACTOR if self.rng.random() < operation.tail else 1
        took = took * fault.slower + fault.plus_ms if fault else took
        failed = (fault is not None and fault.fails) or self.rng.random() < operation.fails
        part = took / (1 + len(steps))
        for step in () if failed else steps:
            now, bad = self._step(own, step, self._worked(now, part, own))
            failed = failed or bad
            if bad and self.system.stops:
                break
        now = self._worked(now, part, own)
        self._write(own, here.span, name, kind, (at, now), failed, {} if here.span else here.attributes)
        return now, failed

    def _acts(self, operation: Operation, pod: int, at: int, attributes: Mapping[str, str]) -> Fault | None:
        fault = self.acting
        if fault is None or fault.at not in (operation.name, operation.service):
            return None
        begin, end = (self.begin_ns + share * WINDOW_NS for share in fault.part)
        if not begin <= at < end or (fault.pod is not None and fault.pod != pod):
            return None
        if fault.of is not None and attributes.get(fault.of[0]) != fault.of[1]:
            return None
        return fault if self.rng.random() < fault.share else None

    def _start(self, own: Visit, at: int) -> tuple[Visit, int]:
        """A pod of a function serves, or starts first: (the visit there, when it begins its work)."""
        number = self.started.setdefault(own.service, self.rng.randrange(10**6))
        if self.rng.random() > COLD_SHARE:
            return own._replace(host=f"{own.service}-{number}"), at
        self.started[own.service] = number + 1
        own = own._replace(host=f"{own.service}-{number + 1}")
        ready = at + self.ms(self.system.cold_ms)
        self._write(own._replace(span=self.new_id()), own.span, f"{own.service}/init", INTERNAL, (at, ready))
        return own, ready

    def _worked(self, at: int, ms: float, own: Visit) -> int:
        """When so much work is done; a pause of the pod that begins meanwhile prolongs it."""
        end = at + int(ms * NS_PER_MS)
        if not self.system.pauses:
            return end
        if own.host not in self.paused:
            times = int(self.system.pauses + self.rng.random())
            self.paused[own.host] = [self.begin_ns + self.rng.randrange(WINDOW_NS) for _ in range(times)]
        return end + sum(self.ms(PAUSE_MS) for pause in self.paused[own.host] if at <= pause < end)

    def _step(self, own: Visit, step: Step, at: int) -> tuple[int, bool]:
        """Calls, one after another or at once: (when the last ends, whether one failed)."""
        ends, failed = [at], False
        for call in step if isinstance(step, tuple) else (step,):
            if self.rng.random() >= call.share:
                continue
            now = at
            for _ in range(call.times if isinstance(call.times, int) else self.rng.randint(*call.times)):
                end, bad = self._call(own, call, at if call.together else now)
                now, failed = max(now, end), failed or bad
                if bad and self.system.stops:
                    break
            ends.append(now)
        return max(ends), failed

    def _call(self, own: Visit, call: Call, at: int) -> tuple[int, bool]:
        callee, _, operation = call.to.partition("/")
        known = {self.system.silent[callee]: callee} if callee in self.system.silent else {}
        begin = at + self.ms(NETWORK_MS)
        if not (known or call.message or self.system.callers_record):
            end, failed = self.visit(own, call.to, SERVER, begin)
            return end + self.ms(NETWORK_MS), failed
        caller = own._replace(span=self.new_id())
        if call.message:
            kind, end, failed = PRODUCER, at + self.ms(1), False
            fault = self._acts(self.operations[call.to], 0, at, own.attributes)
            wait = QUEUED_MS + (fault.waits_ms if fault else 0)
            self.visit(caller, call.to, CONSUMER, end + self.ms(wait))
        else:
            kind = CLIENT
            end, failed = self.visit(caller, call.to, SERVER, begin)
            end += self.ms(NETWORK_MS)
        self._write(caller, own.span, f"{own.service}/{operation}", kind, (at, end), failed, known)
        return end, failed

    def _write(
        self,
        own: Visit,
        parent: str,
        name: str,
        kind: int,
        times: tuple[int, int],
        failed: bool = False,
        known: dict[str, str] | None = None,
    ) -> None:
        if own.service in self.system.silent or (parent and self.rng.random() < self.system.lost):
            return
        operation = name.partition("/")[2].format(**own.attributes)
        start, end = (moment + self.skew[own.service] for moment in times)
        self.span(
            own.trace, parent, (own.service, operation), kind, (start, end), own=own.span,
            failed=failed, attributes=known, pod=own.host, version=own.version,
        )  # fmt: skip
