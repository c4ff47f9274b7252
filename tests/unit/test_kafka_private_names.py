"""Private names of kafka-python: the table of ingest/RATIONALE.md is the code's, and the library has them.

A new version of the library that lacks one fails here, without a broker.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import getsource
from pathlib import Path

from kafka import KafkaConsumer
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.record.default_records import DefaultRecordBatch

from ingest.kafka.fetching import BatchRecords

ROOT = Path(__file__).resolve().parents[2]
_ROW = re.compile(r"^\| `(\w+)\.(_\w+)` \| \S", re.MULTILINE)


def listed() -> set[tuple[str, str]]:
    """(Class, name) of the table."""
    text = (ROOT / "ingest" / "RATIONALE.md").read_text(encoding="utf-8")
    return set(_ROW.findall(text.partition("## Private names of kafka-python")[2]))


def used() -> Iterator[str]:
    """Private names of others in the code, and those that a class of ours takes from the client's."""
    inherited = {name for name in dir(Fetcher.PartitionRecords) if re.fullmatch(r"_[a-z]\w*", name)}
    for file in (ROOT / "ingest" / "kafka").glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-z]\w*", node.attr):
                if ast.unparse(node.value) not in ("self", "cls") or node.attr in inherited:
                    yield node.attr
            elif isinstance(node, ast.FunctionDef) and node.name in inherited:
                yield node.name


def test_every_private_name_is_listed_and_used() -> None:
    assert {name for _, name in listed()} == {*used()}


def test_the_library_has_every_private_name() -> None:
    places: dict[str, type] = {
        "KafkaConsumer": KafkaConsumer,
        "ClusterMetadata": ClusterMetadata,
        "Coordinator": ConsumerCoordinator,
        "Fetcher": Fetcher,
        "PartitionRecords": Fetcher.PartitionRecords,
        "DefaultRecordBatch": DefaultRecordBatch,
    }
    assert [(of, name) for of, name in listed() if not has(places[of], name)] == []
    assert issubclass(BatchRecords, Fetcher.PartitionRecords)


def has(class_: type, name: str) -> bool:
    """True if a class has a method or slot of a name, or sets an attribute of it."""
    sources = [getsource(each) for each in class_.__mro__ if each.__module__.startswith("kafka.")]
    return hasattr(class_, name) or any(re.search(rf"self\.{name}\b[^=\n]*=[^=]", text) for text in sources)
