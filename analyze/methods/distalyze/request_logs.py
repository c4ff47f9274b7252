"""Requests of one root type as instances: trace points are events, own times and parameters states (G.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analyze.explain.chosen_requests import ChosenRequests
from analyze.explain.parameter_columns import parameter_readings
from analyze.methods.distalyze.instance_logs import (
    Instances,
    LogBook,
    LogType,
    Quantity,
    Series,
    VariableName,
)
from analyze.population import Category, Graph, GraphNode, Population
from analyze.profile.call_sites import graph_sites
from analyze.profile.names import NO_CALLER, NameBook, OperationName, SiteKind
from analyze.profile.times import own_time_ns
from schemas.arrays import F8, I8
from stitch.graph.placed import END, START

NS_PER_US = 1e3
_MEASURE = {START: "starts", END: "ends"}


def request_instances(population: Population, chosen: ChosenRequests) -> Instances:
    """The instances of chosen requests: group 0 is C0, group 1 is C1."""
    response = np.zeros(len(chosen))
    for index in np.unique(chosen.category).tolist():
        mine = np.flatnonzero(chosen.category == index)
        response[mine] = population.categories[index].response_ns[chosen.row[mine]] / NS_PER_US
    return Instances(chosen.group == 1, response, response, chosen.weight)


def request_log(population: Population, chosen: ChosenRequests, log_type: LogType) -> Series:
    """One log of chosen requests. O(requests · nodes), no loop over requests."""
    book = LogBook(states=log_type is LogType.STATE)
    names = NameBook()
    for index in np.unique(chosen.category).tolist():
        mine = np.flatnonzero(chosen.category == index)
        category = _rows_of(population.categories[index], chosen.row[mine])
        if log_type is LogType.EVENT:
            variables = [book.number(name) for name in events_of(category.graph, names)]
            book.add_matrix(variables, mine, category.node_ns / NS_PER_US)
        else:
            _own_times(category, mine, book, names)
    if log_type is LogType.STATE:
        _parameters(population, chosen, book)
    return book.series()


def _rows_of(category: Category, rows: I8) -> Category:
    """What times are made of, of some requests."""
    return replace(
        category,
        node_ns=np.ascontiguousarray(category.node_ns[:, rows]),
        response_ns=category.response_ns[rows],
        start_ns=category.start_ns[rows],
        weight=category.weight[rows],
        sample=category.sample[rows],
        status=category.status[rows],
        request_id=category.request_id,
        host=None if category.host is None else category.host[:, rows],
        origin=None if category.origin is None else category.origin[rows],
    )


def events_of(graph: Graph, names: NameBook) -> list[VariableName]:
    """[nodes] the events that the nodes of a graph are.

    The caller's side of a remote call is named with whom it calls, as its own time is: client spans are
    called `GET` wherever they go, and what a service takes shows when its callers go on.
    """
    if graph.nesting is None:
        return [_event(node) for node in graph.nodes]
    sites = graph_sites(graph, (), names)
    operations, known = tuple(names.operations), tuple(names.sites)
    found = []
    for node, unit in zip(graph.nodes, sites.unit_at.tolist(), strict=True):
        _, operation, _ = known[int(sites.site[unit])]
        name = operations[operation]
        found.append(VariableName(name.component, _with_callee(name), _MEASURE.get(node.side, "reached")))
    return found


def _event(node: GraphNode) -> VariableName:
    component = f"{node.host}/{node.component}" if node.host else node.component
    what = node.point if node.label is None else f"{node.point}/{node.label}"
    return VariableName(component, what, _MEASURE.get(node.side, "reached"))


def _with_callee(name: OperationName) -> str:
    return name.point + (f" -> {name.callee}" if name.callee else "")


def own_times(category: Category, book: LogBook, names: NameBook) -> tuple[list[int], I8, F8]:
    """Variables of the units' own times [units], when units end and their own times [units, requests], µs."""
    sites = graph_sites(category.graph, (), names)
    operations, known = tuple(names.operations), tuple(names.sites)
    variables = []
    for site in sites.site.tolist():
        caller, operation, kind = known[site]
        name = operations[operation]
        step = kind == SiteKind.STEP and caller != NO_CALLER
        measure = f"after {operations[caller].text}" if step else "own time"
        variables.append(book.number(VariableName(name.component, _with_callee(name), measure)))
    own = own_time_ns(category.node_ns, sites, np.arange(sites.n_units, dtype=np.int64))
    return variables, sites.end, own / NS_PER_US


def _own_times(category: Category, mine: I8, book: LogBook, names: NameBook) -> None:
    variables, end, own = own_times(category, book, names)
    if variables:
        book.add_matrix(variables, mine, category.node_ns[end] / NS_PER_US, own)


def _parameters(population: Population, chosen: ChosenRequests, book: LogBook) -> None:
    """Numeric parameters. They are kept without a time: their place in the request stands for it."""
    read = parameter_readings(population, chosen)
    if not len(read.request):
        return
    response = request_instances(population, chosen).duration_us
    time_us = read.progress * response[read.request]
    cuts = np.flatnonzero(np.diff(read.field)) + 1
    for rows in np.split(np.arange(len(read.field)), cuts):
        where, key = read.fields[int(read.field[rows[0]])]
        component, _, point = where.partition("/")
        number = book.number(VariableName(component, point, f"parameter {key}", Quantity.VALUE))
        book.add(number, read.request[rows].astype(np.int32), time_us[rows], read.number[rows])
