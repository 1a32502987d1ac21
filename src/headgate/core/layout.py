"""Positions for the nodes of a graph: in layers from left to right, with few crossings. Pure, and independent of any
page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Edge = tuple[str, str]
#: Number of passes that improve the order within the layers; more change little.
SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Layout:
    """A graph in layers."""

    #: The layer of each node, from 0 on.
    layer: Mapping[str, int]
    #: Its position in the layer, from 0 on. Edges that pass through a layer occupy a position there too.
    row: Mapping[str, int]
    #: For each edge, the positions (layer, row) that it passes through.
    bends: Mapping[Edge, Sequence[tuple[int, int]]]
    #: Every node before its successors, except in cycles.
    order: Sequence[str]
    #: The number of layers, and of positions in the fullest one.
    width: int
    height: int


def layout(nodes: Sequence[str], edges: Iterable[Edge]) -> Layout:
    """Place each node to the right of everything that leads to it. An edge that closes a cycle is ignored."""
    forward = _without_rings(nodes, list(dict.fromkeys(edges)))
    order, layer = _longest_paths(nodes, forward)
    layers: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for name in order:
        layers[layer[name]].append(name)
    passing = {edge: _passed(edge, layer, layers) for edge in forward}
    steps = [step for way in passing.values() for step in pairwise(way)]
    _uncross(layers, steps)
    row = {name: place for names in layers for place, name in enumerate(names)}
    bends = {
        edge: [(layer[edge[0]] + step, row[name]) for step, name in enumerate(way[1:-1], 1)]
        for edge, way in passing.items()
    }
    shown = {name: row[name] for name in order}
    return Layout(layer, shown, bends, order, len(layers), max(map(len, layers), default=0))


def _without_rings(nodes: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """The edges without those that lead back to a node being visited."""
    after: dict[str, list[str]] = {name: [] for name in nodes}
    for source, target in edges:
        after[source].append(target)
    left: set[Edge] = set()
    done: set[str] = set()
    for root in nodes:
        trail, pending = [root], [iter(() if root in done else after[root])]
        while pending:
            ahead = next(pending[-1], None)
            if ahead is None:
                pending.pop()
                done.add(trail.pop())
            elif ahead in trail:
                left.add((trail[-1], ahead))
            elif ahead not in done:
                trail.append(ahead)
                pending.append(iter(after[ahead]))
    return [edge for edge in edges if edge not in left]


def _longest_paths(nodes: Sequence[str], edges: Sequence[Edge]) -> tuple[list[str], dict[str, int]]:
    """The nodes in topological order, and the longest path to each."""
    waits = {name: sum(1 for _, target in edges if target == name) for name in nodes}
    layer = dict.fromkeys(nodes, 0)
    order = [name for name in nodes if not waits[name]]
    for name in order:
        for source, target in edges:
            if source == name:
                layer[target] = max(layer[target], layer[name] + 1)
                waits[target] -= 1
                if not waits[target]:
                    order.append(target)
    return sorted(order, key=lambda name: layer[name]), layer


def _passed(edge: Edge, layer: Mapping[str, int], layers: list[list[str]]) -> list[str]:
    """The edge as steps from layer to layer; it gets a position in every layer that it passes through."""
    source, target = edge
    way = [source]
    for between in range(layer[source] + 1, layer[target]):
        way.append(f"{source}\0{target}\0{between}")
        layers[between].append(way[-1])
    return [*way, target]


def _uncross(layers: list[list[str]], steps: Sequence[Edge]) -> None:
    """Move each node to the middle of its neighbours, from left to right and back again."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for source, target in steps:
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    for sweep in range(SWEEPS):
        beside = before if sweep % 2 == 0 else after
        for names in layers if sweep % 2 == 0 else reversed(layers):
            place = _places(layers)
            names.sort(key=lambda name: _middle(name, beside, place))


def _places(layers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The position within a layer, from -1 to 1, so that layers of different heights are comparable."""
    return {
        name: (2 * place + 1) / len(names) - 1 for names in layers for place, name in enumerate(names)
    }  # fmt: skip


def _middle(name: str, beside: Mapping[str, Sequence[str]], place: Mapping[str, float]) -> float:
    near = beside.get(name)
    return sum(place[each] for each in near) / len(near) if near else place[name]
