"""The picture of the pipeline: boxes and lines in pixels, at most as wide as a page. A long flow continues in the next
band.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

from headgate.core.layout import Layout

#: The sizes of a box, of the gaps between boxes, a line of text, the name above the lines, and the margin.
WIDTH, GAP_X, GAP_Y, LINE, HEAD, EDGE = 160, 34, 24, 20, 34, 30
#: Number of layers side by side that fit on the page without shrinking.
LAYERS = 6
#: Lines that continue in the next band: their distance, and the radius of their corners.
LANE, CORNER = 6, 8


class Drawn(Protocol):
    """The content of a box."""

    @property
    def id(self) -> str:
        """The id of its element."""

    @property
    def lines(self) -> Sequence[tuple[str, str]]:
        """The lines below its name."""


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A node with its position, and the nodes that arrow keys lead to."""

    node: Drawn
    x: int
    y: int
    height: int
    right: str
    left: str
    up: str
    down: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The graph, ready to be drawn."""

    boxes: Sequence[DrawnBox]
    paths: Sequence[str]
    width: int
    height: int


class Spot(NamedTuple):
    """The left edge and the middle line of a position, and its band."""

    x: int
    y: int
    band: int


def draw(found: Layout, nodes: Mapping[str, Drawn], edges: Sequence[tuple[str, str]]) -> Picture:
    """Boxes and lines. A flow of more than LAYERS layers is broken into bands, like text into lines."""
    plan = _Plan(found, max((_height(node) for node in nodes.values()), default=0))
    spots = {name: plan.spot(found.layer[name], found.row[name]) for name in found.order}
    paths = [
        plan.path(spots[source], [plan.spot(*bend) for bend in bends], spots[target])
        for (source, target), bends in found.bends.items()
    ]
    keys = _keys(found, edges)
    boxes = [
        DrawnBox(nodes[name], spot.x, spot.y - _height(nodes[name]) // 2, _height(nodes[name]),
            *(nodes[other].id if (other := keys[name][way]) else "" for way in range(4)))
        for name, spot in spots.items()
    ]  # fmt: skip
    return Picture(boxes, paths, plan.width, plan.height)


class _Plan:
    """The coordinates of each position in a layout."""

    def __init__(self, found: Layout, tall: int) -> None:
        bands = -(-found.width // LAYERS) or 1
        self.per_band = -(-found.width // bands) or 1
        self._step = tall + GAP_Y
        places = [(found.layer[name], found.row[name]) for name in found.order]
        places += [place for bends in found.bends.values() for place in bends]
        self._filled = Counter(layer for layer, _ in set(places))
        self._turned: Counter[int] = Counter()
        turns = Counter(band for way in _ways(found) for band in self._turns(way))
        self._tops, self._bottoms = [], []
        top = EDGE // 2
        for band in range(bands):
            rows = max((self._filled[layer] for layer in self._layers(band)), default=1)
            self._tops.append(top)
            self._bottoms.append(top + rows * self._step)
            top = self._bottoms[-1] + (turns[band] + 2) * LANE
        self.width = 2 * EDGE + min(found.width, self.per_band) * (WIDTH + GAP_X) - GAP_X
        self.height = self._bottoms[-1] + EDGE // 2

    def spot(self, layer: int, row: int) -> Spot:
        """The position of a row in a layer."""
        band, column = divmod(layer, self.per_band)
        middle = (self._tops[band] + self._bottoms[band]) / 2
        y = middle + (row - (self._filled[layer] - 1) / 2) * self._step
        return Spot(EDGE + column * (WIDTH + GAP_X), round(y), band)

    def path(self, source: Spot, bends: Sequence[Spot], target: Spot) -> str:
        """From the right side of a box to the left side of another, level where it passes a layer."""
        stops = [source._replace(x=source.x + WIDTH)]
        for spot in bends:
            stops += [spot, spot._replace(x=spot.x + WIDTH)]
        stops.append(target._replace(x=target.x - 7))
        return f"M{source.x + WIDTH} {source.y}" + "".join(self._line(*pair) for pair in pairwise(stops))

    def _line(self, start: Spot, end: Spot) -> str:
        if start.band != end.band:
            return self._turn(start, end)
        half = (start.x + end.x) // 2
        if start.y == end.y:
            return f"H{end.x}"
        return f"C{half} {start.y} {half} {end.y} {end.x} {end.y}"

    def _turn(self, start: Spot, end: Spot) -> str:
        """Down to the gap below the band, back to the left, and into the next band."""
        self._turned[start.band] += 1
        lane = self._turned[start.band]
        right, left = start.x + CORNER + lane % 3 * LANE, EDGE - CORNER - 8 - lane % 2 * LANE
        level = self._bottoms[start.band] + lane * LANE
        corners = [(right, start.y), (right, level), (left, level), (left, end.y)]
        ends = [(start.x, start.y), *corners, (end.x, end.y)]
        text = ""
        for before, (x, y), after in zip(ends, corners, ends[2:], strict=False):
            (ax, ay), (bx, by) = _towards((x, y), before), _towards((x, y), after)
            text += f"L{ax} {ay}Q{x} {y} {bx} {by}"
        return f"{text}H{end.x}"

    def _layers(self, band: int) -> range:
        return range(band * self.per_band, (band + 1) * self.per_band)

    def _turns(self, layers: Sequence[int]) -> list[int]:
        """The bands that a path over these layers leaves."""
        bands = [layer // self.per_band for layer in layers]
        return [band for band, following in pairwise(bands) if band != following]


def _ways(found: Layout) -> list[list[int]]:
    """The layers that each edge touches."""
    return [
        [found.layer[source], *(layer for layer, _ in bends), found.layer[target]]
        for (source, target), bends in found.bends.items()
    ]


def _towards(corner: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """A point near a corner, towards the next point on the same axis."""
    (x, y), (to_x, to_y) = corner, other
    near_x, near_y = min(CORNER, abs(to_x - x) // 2), min(CORNER, abs(to_y - y) // 2)
    return x + (near_x if to_x > x else -near_x), y + (near_y if to_y > y else -near_y)


def _height(node: Drawn) -> int:
    return HEAD + LINE * len(node.lines) + 8


def _keys(found: Layout, edges: Sequence[tuple[str, str]]) -> dict[str, tuple[str, str, str, str]]:
    """The targets of arrow keys: right and left along edges, up and down within a layer."""
    keys = {}
    for name in found.order:
        column = sorted((n for n in found.order if found.layer[n] == found.layer[name]), key=lambda n: found.row[n])
        at = column.index(name)
        keys[name] = (
            _nearest(found, name, [target for source, target in edges if source == name]),
            _nearest(found, name, [source for source, target in edges if target == name]),
            column[at - 1] if at else "",
            column[at + 1] if at + 1 < len(column) else "",
        )
    return keys


def _nearest(found: Layout, name: str, others: Sequence[str]) -> str:
    return min(others, key=lambda other: abs(found.row[other] - found.row[name]), default="")
