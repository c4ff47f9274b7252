"""Host labels: who gets them, and what they split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from oracles.refined import T0, call, event, only, population, stored, table

from analyze.population import Population, Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from schemas.events import EventKind


def record_population(
    hosts: tuple[list[str], list[str]], settings: RefineSettings | None = None
) -> Population:
    """Two-record requests at the storage node `sn`, one a host in each period's list."""
    return refine(*stored_records(hosts), settings or RefineSettings())


def stored_records(hosts: Sequence[list[str]]) -> tuple[pa.Table, pa.Table]:
    batches = []
    for period, names in enumerate(hosts):
        rows = []
        for number, host in enumerate(names):
            place = {"request_id": f"{period}-{number}", "breadcrumb": "b"}
            at = T0 + period * 3_600 * 10**9 + number * 10**9
            rows += [
                event(**place, kind=0, ts_ns=at, component="nfs", point="read", host="server"),
                event(**place, kind=0, ts_ns=at + 1_000, component="sn", point="fetch", host=host),
                event(**place, kind=int(EventKind.END), ts_ns=at + 5_000, component="nfs", point="done"),
            ]
        batches.append(table(rows))
    return stored(batches)


def sizes(found: Population) -> dict[str, list[int]]:
    """Middle label -> requests in each period."""
    return {c.graph.labels[1]: np.bincount(c.sample, minlength=2).tolist() for c in found.categories}


def test_few_hosts_of_records_split_a_category() -> None:
    found = record_population((["sn1", "sn2", "sn2"], ["sn2", "sn2", "sn2"]))
    assert sizes(found) == {"sn1/sn/fetch": [1, 0], "sn2/sn/fetch": [2, 3]}
    assert all(category.graph.labels[0] == "nfs/read" for category in found.categories)
    assert not found.notes


def test_renamed_hosts_do_not() -> None:
    found = record_population((["pod-a", "pod-b"], ["pod-c", "pod-b"]))
    assert sizes(found) == {"sn/fetch": [2, 2]}
    assert "pod-a" in found.notes[0]
    assert "pod-c" in found.notes[0]


def test_any_number_of_samples_is_compared_with_the_first() -> None:
    """Of three samples the second and third need not agree: neither has a host that the first lacks."""
    samples = tuple(Sample(name) for name in ("usual", "morning", "evening"))
    for hosts, renamed in (
        ((["sn1", "sn2"], ["sn1"], ["sn2"]), False),
        ((["sn1", "sn2"], ["sn1", "sn2"], ["sn2", "sn3"]), True),
        ((["sn1", "sn2"],), False),
    ):
        found = refine(*stored_records(hosts), RefineSettings(), samples[: len(hosts)])
        assert any("differ between the usual and the evening" in note for note in found.notes) == renamed
        assert any(category.graph.nodes[1].host for category in found.categories) != renamed


def test_hosts_of_a_history_rename_nothing() -> None:
    hosts = (["sn1", "sn2"], ["sn1", "sn2"], ["sn2", "sn3"])
    samples = tuple(Sample(name) for name in ("reference", "problem", "history 1"))
    found = refine(*stored_records(hosts), RefineSettings(), samples, n_compared=2)
    assert found.notes == ()
    assert {category.graph.nodes[1].host for category in found.categories} == {"sn1", "sn2", "sn3"}


def test_many_hosts_do_not() -> None:
    hosts = [f"sn{at}" for at in range(5)]
    assert sizes(record_population((hosts, hosts))) == {"sn/fetch": [5, 5]}


def test_full_and_none_are_obeyed() -> None:
    hosts = ["sn1", "sn2"]
    full = record_population((hosts, ["sn3", "sn4"]), RefineSettings(host_policy="full"))
    assert sizes(full) == {
        "sn1/sn/fetch": [1, 0],
        "sn2/sn/fetch": [1, 0],
        "sn3/sn/fetch": [0, 1],
        "sn4/sn/fetch": [0, 1],
    }
    assert sizes(record_population((hosts, hosts), RefineSettings(host_policy="none"))) == {
        "sn/fetch": [2, 2]
    }


def test_roles_stand_for_hosts() -> None:
    settings = RefineSettings(host_roles=((r"sn-meta\d*", "meta"), (r"sn-.*", "data")))
    found = record_population((["sn-meta1", "sn-a", "sn-b"], ["sn-a", "sn-b", "sn-c"]), settings)
    assert sizes(found) == {"meta/sn/fetch": [1, 0], "data/sn/fetch": [2, 3]}
    assert "match no role, for example server" in found.notes[0]


def test_hosts_of_spans_are_left_out_unless_asked_for() -> None:
    def request(host: str) -> object:
        return call("web/get", 0, 100, call("db/query", 10, 90, host=host), host="w")

    requests = [request("pod-a"), request("pod-b")]
    assert only(population(requests)).graph.labels[1] == "db/query>"  # type: ignore[arg-type]
    full = population(requests, settings=RefineSettings(host_policy="full"))  # type: ignore[arg-type]
    assert [c.graph.labels[1] for c in full.categories] in (
        ["pod-a/db/query>", "pod-b/db/query>"],
        ["pod-b/db/query>", "pod-a/db/query>"],
    )


def test_key_and_components_know_the_host_apart() -> None:
    found = record_population((["sn1", "sn2"], ["sn1", "sn2"]))
    keys = {category.graph.key for category in found.categories}
    assert len(keys) == 2
    assert {tuple(node.component for node in category.graph.nodes) for category in found.categories} == {
        ("nfs", "sn", "nfs")
    }
    assert len({category.graph.text.canonical for category in found.categories}) == 2
