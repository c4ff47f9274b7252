"""The slow, obvious way from activity records to flows."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import networkx as nx
from oracles.plain_flow import Event, Node, PlainFlow, reduce_transitively

from schemas.config import StitchConfig
from schemas.events import EventKind as K
from schemas.quality import Quality


def group_requests(records: list[Event]) -> dict[str, list[Event]]:
    """Records by request: the declared one, else what breadcrumbs, links, ids and parents tie together."""
    ties = nx.Graph()
    requests: dict[str, list[Event]] = defaultdict(list)
    touched: dict[tuple[str, str], set[str]] = defaultdict(set)
    loose = []
    for event in records:
        words = _words(event)
        if event["request_id"] is not None:
            requests[event["request_id"]].append(event)
            for word in words:
                touched[word].add(event["request_id"])
        else:
            words = words or [("crumb", "")]
            loose.append((event, words[0]))
            nx.add_path(ties, words)
            ties.add_node(words[0])
    owner: dict[tuple[str, str], str] = {}
    for component in nx.connected_components(ties):
        candidates = {request for word in component for request in touched[word]}
        if not candidates:
            crumbs = [text for kind, text in component if kind == "crumb"]
            candidates = {"~" + min(crumbs or [text for _, text in component])}
        for word in component:
            owner[word] = min(candidates)
    for event, word in loose:
        requests[owner[word]].append(event)
    return requests


def _words(event: Event) -> list[tuple[str, str]]:
    words = [] if event["breadcrumb"] is None else [("crumb", event["breadcrumb"])]
    words += [] if event["id"] is None else [("id", event["id"])]
    if event["kind"] in (K.SPLIT, K.JOIN):
        words += [("crumb", link) for link in event["links"] or [] if link is not None]
    return words + [("id", parent) for parent in event["parents"] or [] if parent is not None]


def stitch_request(
    request_id: str, rows: list[Event], config: StitchConfig
) -> tuple[PlainFlow | None, int, list[Event]]:
    """The flow (None: no record has a time), exact duplicates, and rows in conflict."""
    rows = [row for row in rows if row["ts_ns"] is not None]
    if not rows:
        return None, 0, []
    flow = PlainFlow(request_id)
    records, n_duplicates, conflicts = _once_each(rows)
    if conflicts:
        flow.quality |= Quality.CONFLICT
    strands = _strands(flow, records)
    if len(records) > config.max_events_per_flow:
        flow.quality |= Quality.CAPPED
        records.sort(key=lambda r: (r["ts_ns"], r["content"]))
        kept = {id(record) for record in records[: config.max_events_per_flow]}
        strands = [[r for r in strand if id(r) in kept] for strand in strands]
        strands = [strand for strand in strands if strand]
    for strand in strands:
        for r in strand:
            name = (r["component"], r["point"], r["label"], r["kind"], 0)
            flow.nodes.append(Node(name, r["ts_ns"], r["host"], r["status"], event=r))
    graph = _Graph(flow, strands, config)
    graph.connect()
    graph.cut_cycles()
    graph.find_root()
    graph.find_responses()
    graph.find_open_strands()
    flow.edges = reduce_transitively(len(flow.nodes), flow.edges)
    return flow, n_duplicates, conflicts


def _once_each(rows: list[Event]) -> tuple[list[Event], int, list[Event]]:
    """Every content once, and every id once: the earliest content, then most parents, then by content."""
    distinct = {row["content"]: row for row in rows}
    by_id: dict[str, list[Event]] = defaultdict(list)
    records = []
    for row in distinct.values():
        if row["id"] is None:
            records.append(row)
        else:
            by_id[row["id"]].append(row)
    conflicts = []
    for versions in by_id.values():
        versions.sort(key=lambda r: (r["ts_ns"], -len(_Graph.parents(r)), r["content"]))
        records.append(versions[0])
        conflicts += versions[1:]
    return records, len(rows) - len(distinct), conflicts


def _strands(flow: PlainFlow, records: list[Event]) -> list[list[Event]]:
    by_crumb: dict[str, list[Event]] = defaultdict(list)
    strands = []
    for record in records:
        if record["breadcrumb"] is None:
            strands.append([record])
        else:
            by_crumb[record["breadcrumb"]].append(record)
    for strand in by_crumb.values():
        has_seq = [record["seq"] is not None for record in strand]
        if all(has_seq):
            strand.sort(key=lambda r: (r["seq"], r["ts_ns"], r["content"]))
        else:
            strand.sort(key=lambda r: (r["ts_ns"], r["content"]))
            if any(has_seq):
                flow.quality |= Quality.MIXED_SEQ
        strands.append(strand)
    return strands


class _Graph:
    """Edges, root and response of one request."""

    def __init__(self, flow: PlainFlow, strands: list[list[Event]], config: StitchConfig) -> None:
        self.flow = flow
        self.config = config
        self.n_records = len(flow.nodes)
        self.events: list[Event] = [node.event for node in flow.nodes if node.event is not None]
        assert len(self.events) == self.n_records
        self.strands: list[list[int]] = []
        self.strand_of: dict[int, int] = {}
        for strand in strands:
            self.strands.append(list(range(len(self.strand_of), len(self.strand_of) + len(strand))))
            self.strand_of.update(dict.fromkeys(self.strands[-1], len(self.strands) - 1))
        self.by_crumb = {strand[0]["breadcrumb"]: i for i, strand in enumerate(strands)}
        self.by_crumb.pop(None, None)
        self.explicit = {i for i, event in enumerate(self.events) if any(self.parents(event))}
        self.joined: set[int] = set()
        self.outlived: set[int] = set()
        self.missing_parents: set[int] = set()
        self.orphans: set[int] = set()
        self.tops: set[int] = set()

    @staticmethod
    def parents(event: Event) -> list[str]:
        return [parent for parent in event["parents"] or [] if parent is not None]

    def connect(self) -> None:
        edges, events = self.flow.edges, self.events
        for strand in self.strands:
            for before, after in pairwise(strand):
                if after not in self.explicit:
                    edges.add((before, after))
        by_id = {event["id"]: i for i, event in enumerate(events) if event["id"] is not None}
        for i, event in enumerate(events):
            for parent in self.parents(event):
                if parent in by_id:
                    edges.add((by_id[parent], i))
                else:
                    self.missing_parents.add(i)
            if event["kind"] not in (K.SPLIT, K.JOIN):
                continue
            for link in event["links"] or []:
                if link is not None:
                    self._link(i, event, link)
        if self.missing_parents:
            self.flow.quality |= Quality.ORPHAN
        reached = {dst for _, dst in edges}
        self.orphans = self.missing_parents - reached

    def _link(self, i: int, event: Event, link: str) -> None:
        if link not in self.by_crumb:
            self.flow.quality |= Quality.LOST_STRAND
            return
        linked = self.by_crumb[link]
        if linked == self.strand_of[i]:
            return
        strand = self.strands[linked]
        if event["kind"] == K.SPLIT:
            self.flow.edges.add((i, strand[0]))
            return
        self.flow.edges.add((strand[-1], i))
        self.joined.add(linked)
        last = self.events[strand[-1]]
        if last["ts_ns"] > event["ts_ns"] and last["host"] == event["host"]:
            self.outlived.add(linked)

    def cut_cycles(self) -> None:
        edges = self.flow.edges
        n_before = [0] * self.n_records
        after: list[list[int]] = [[] for _ in range(self.n_records)]
        for src, dst in edges:
            after[src].append(dst)
            n_before[dst] += 1
        free = [i for i in range(self.n_records) if n_before[i] == 0]
        for i in free:
            for dst in after[i]:
                n_before[dst] -= 1
                if n_before[dst] == 0:
                    free.append(dst)
        stuck = set(range(self.n_records)) - set(free)
        if stuck:
            self.flow.quality |= Quality.CYCLE
            self.flow.edges = {(a, b) for a, b in edges if not (a in stuck and b in stuck)}

    def find_root(self) -> None:
        flow = self.flow
        reached = {dst for _, dst in flow.edges}
        sources = set(range(self.n_records)) - reached - self.orphans
        if not sources and len(self.orphans) == 1:
            sources, self.orphans = self.orphans, set()
        self.tops = sources or self.orphans
        if len(self.orphans) > max(1, self.config.orphan_share * self.n_records):
            flow.quality |= Quality.INCOMPLETE
        missing = self._made("missing", self.orphans) if self.orphans else None
        if len(sources) > 1:
            flow.quality |= Quality.MULTI_ROOT
            below = sources if missing is None else sources | {missing}
            flow.root = self._made("root", below)
        elif sources:
            (flow.root,) = sources
            if missing is not None:
                flow.edges.add((flow.root, missing))
        else:
            assert missing is not None
            flow.root = missing

    def _made(self, point: str, below: set[int]) -> int:
        nodes = self.flow.nodes
        nodes.append(Node(("?", point, None, int(K.EVENT), 0), min(nodes[i].ts_ns for i in below)))
        self.flow.edges |= {(len(nodes) - 1, i) for i in below}
        return len(nodes) - 1

    def find_responses(self) -> None:
        flow = self.flow
        ends = [i for i, event in enumerate(self.events) if event["kind"] == K.END]
        entries = {self.strand_of[i] for i in self.tops}
        with_end = {strand for strand in entries if any(i in ends for i in self.strands[strand])}
        entry = None
        for candidates in (entries, with_end):
            if entry is None and len(candidates) == 1:
                (entry,) = candidates
        if entry in with_end:
            choices = [next(i for i in self.strands[entry] if i in ends)]
        elif ends:
            choices = ends
        elif self.explicit or any(event["breadcrumb"] is None for event in self.events):
            sources = {src for src, _ in flow.edges}
            flow.choices = [set(range(len(flow.nodes))) - sources]
            return
        else:
            flow.quality |= Quality.NO_END
            choices = [self.strands[s][-1] for s in (entries if entry is None else {entry})]
        flow.choices = [{choice} for choice in choices]

    def find_open_strands(self) -> None:
        entries = {self.strand_of[i] for i in self.tops}
        for number, strand in enumerate(self.strands):
            told = any(i in self.explicit or self.events[i]["breadcrumb"] is None for i in strand)
            ended = any(self.events[i]["kind"] == K.END for i in strand)
            closed = number in entries or told or ended or number in self.joined
            if not closed or number in self.outlived:
                self.flow.quality |= Quality.UNCLOSED
