"""Reads canonical text back into a graph, by the grammar of `stitch.graph.text` alone."""

from __future__ import annotations

import re
from collections import ChainMap
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')
COUNT = re.compile(r"\)?\*(\d+)")


@dataclass
class _Reader:
    words: list[str]
    at: int = 0
    n_nodes: int = 0

    def sequence(self) -> list[tuple[Any, ...]]:
        items: list[tuple[Any, ...]] = []
        while self.at < len(self.words):
            word = self.words[self.at]
            if word in ("|", "}") or COUNT.fullmatch(word):
                break
            self.at += 1
            if word in ("{", "&{"):
                branches = []
                while True:
                    branch, count = self.sequence(), 1
                    if match := COUNT.fullmatch(self.words[self.at]):
                        count = int(match[1])
                        self.at += 1
                    branches += [(branch, count)]
                    self.at += 1
                    if self.words[self.at - 1] == "}":
                        break
                items.append(("parallel" if word == "{" else "spawn", branches))
            elif word == "(":
                body = self.sequence()
                match = COUNT.fullmatch(self.words[self.at])
                assert match is not None, f"a loop ends in a count, not {self.words[self.at]}"
                self.at += 1
                items.append(("loop", body, int(match[1])))
            elif word[0] == "^":
                items.append(("revisit", int(word[1:])))
            else:
                names = [word[:-2] + ">", word[:-2] + "<"] if word.endswith("<>") else [word]
                for name in names:
                    self.n_nodes += 1
                    items.append(("node", name, self.n_nodes))
        return items


@dataclass
class _Builder:
    graph: nx.DiGraph = field(default_factory=nx.DiGraph)
    revisits: list[tuple[set[int], int, ChainMap[int, int]]] = field(default_factory=list)

    def build(self, items: list[tuple[Any, ...]], opens: set[int], scope: ChainMap[int, int]) -> set[int]:
        """Lay the items down behind the open ends; the open ends after them."""
        for item in items:
            if item[0] == "node":
                node = self.graph.number_of_nodes()
                self.graph.add_node(node, text=item[1])
                self.graph.add_edges_from((src, node) for src in opens)
                scope[item[2]] = node
                opens = {node}
            elif item[0] == "revisit":
                self.revisits.append((opens, item[1], scope))
                opens = set()
            elif item[0] == "loop":
                for _ in range(item[2]):
                    opens = self.build(item[1], opens, scope.new_child())
            else:
                pooled: set[int] = set()
                for branch, count in item[1]:
                    for _ in range(count):
                        pooled |= self.build(branch, opens, scope.new_child() if count > 1 else scope)
                opens = pooled if item[0] == "parallel" else opens
        return opens


def read_text(text: str) -> nx.DiGraph:
    """The graph of a text at L0; every node has its word as `text`, with `op<>` taken apart."""
    reader = _Reader(WORD.findall(text))
    items = reader.sequence()
    assert reader.at == len(reader.words), f"unread: {reader.words[reader.at :]}"
    builder = _Builder()
    builder.build(items, set(), ChainMap())
    for opens, ordinal, scope in builder.revisits:
        builder.graph.add_edges_from((src, scope[ordinal]) for src in opens)
    return builder.graph
