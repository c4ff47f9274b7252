"""Names without ids."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from ingest.codecs.values.names import clean_words, cut_utf8, map_words, normalise_label, normalise_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GET /users/17/orders", "GET /users/{n}/orders"),
        ("/a/5698ba57-f2f6-44e9-90f8-987e10353ed8/b", "/a/{uuid}/b"),
        ("471418097747d04a", "{hex}"),
        ("call 0xdeadbeef01", "call {hex}"),
        ("ping 10.0.0.3:8080", "ping {ip}:{n}"),
        ("worker-12", "worker-{n}"),
        ("v2/http2/oauth2/p99/sha256", "v2/http2/oauth2/p99/sha256"),
        ("deadbeef feedback", "deadbeef feedback"),
        ("hipstershop.CartService/GetCart", "hipstershop.CartService/GetCart"),
        ("", ""),
    ],
)
def test_span_names(name: str, expected: str) -> None:
    assert normalise_name(name) == expected
    assert normalise_name(expected) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Registering appattempt_1364250529092_0383_000001", "Registering {id}"),
        ("Combined 2020907 records for partition 0", "Combined {n} records for partition {n}"),
        ("Connecting to http://gimli:8080/mapOutput?job=job_1", "Connecting to {url}"),
        ("Staging directory is /tmp/a/.staging", "Staging directory is {path}"),
        ("JobImpl-1 init", "JobImpl-{n} init"),
        ("Start Trace: Executing Command", "Start Trace: Executing Command"),
    ],
)
def test_log_labels(label: str, expected: str) -> None:
    assert normalise_label(label) == expected


def test_cutting_keeps_whole_characters() -> None:
    assert cut_utf8("ééé", 5) == "éé"
    assert cut_utf8("abc", 3) == "abc"


def test_words_that_become_equal_share_a_code() -> None:
    words = pa.array(["a1", "b", "a2", None, "a1"]).dictionary_encode()
    mapped = map_words(words, lambda w: w[0])
    assert mapped.to_pylist() == ["a", "b", "a", None, "a"]
    assert mapped.dictionary.to_pylist() == ["a", "b"]


def test_cleaning_counts_rows() -> None:
    oddities: Counter[str] = Counter()
    words = pa.array(["x\0", "x\0", "yyyyyy", "z"]).dictionary_encode()
    cleaned = clean_words(words, 4, oddities)
    assert cleaned.to_pylist() == ["x\N{REPLACEMENT CHARACTER}", "x\N{REPLACEMENT CHARACTER}", "yyyy", "z"]
    assert oddities == {"nul-replaced": 2, "name-cut": 1}
