"""Draws a state table as an SVG: states in layers from top to bottom, every arrow with its events."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from headgate.core.layout import Edge, Layout, layout
from headgate.core.tables.machine import Machine

Point = tuple[float, float]
#: The control points of a curve: its start, two that bend it, its end.
Curve = tuple[Point, Point, Point, Point]
#: Sizes in pixels: a letter, a line of text, a state's box, and the distance between boxes across and down.
LETTER, LINE, BOX = 6.6, 16.0, 28.0
ACROSS, DOWN, MARGIN = 190.0, 110.0, 24.0
#: Positions along an arrow for its label, the best first.
PLACES = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)
STYLE = """
  rect.page { fill: #fff } rect.state { fill: #eef4fb; stroke: #2b5c8a } rect.end { fill: #f1f1f1; stroke: #777 }
  text { font: 12px sans-serif; fill: #111; text-anchor: middle } text.state { font-weight: bold }
  text.event { fill: #333; stroke: #fff; stroke-width: 4px; paint-order: stroke; stroke-linejoin: round }
  path.arrow { fill: none; stroke: #666; marker-end: url(#tip) } circle { fill: #111 }
"""
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"
 aria-label="The states of a {name}"><style>{style}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>
<rect class="page" width="{width}" height="{height}"/>"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that nothing else should cover."""

    left: float
    top: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.left + other.width
            and other.left < self.left + self.width
            and self.top < other.top + other.height
            and other.top < self.top + self.height
        )


def draw(machine: Machine, taken: Collection[str] | None = None) -> str:
    """The picture. `taken`: names of rows that tests have executed, which are marked."""
    arrows = _arrows(machine, taken)
    placed = layout(list(machine.states), [edge for edge in arrows if edge[0] != edge[1]])
    boxes = {state: _box(placed, state) for state in machine.states}
    ways = {edge: _way(placed, boxes, edge) for edge in arrows}
    words = list(_words(arrows, ways, boxes))
    bends = [corner[0] for way in ways.values() for curve in way for corner in curve]
    width = max(*bends, *(box.left + box.width for box in (*boxes.values(), *(box for _, box in words)))) + MARGIN
    height = max(box.top + box.height for box in boxes.values()) + MARGIN
    lines = [
        HEAD.format(width=f"{width:.0f}", height=f"{height:.0f}", name=machine.name, style=STYLE),
        *_beginning(_top(boxes[machine.start])),
        *(_path(way) for way in ways.values()),
        *(_state(name, box, end=name in machine.ends) for name, box in boxes.items()),
        *(_text("event", box, text) for text, box in words),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _arrows(machine: Machine, taken: Collection[str] | None) -> dict[Edge, list[str]]:
    arrows: dict[Edge, list[str]] = {}
    for row in machine.rows:
        mark = "" if taken is None else " ✓" if row.name in taken else " (not taken)"
        events = arrows.setdefault((row.source, row.target), [])
        if row.event + mark not in events:
            events.append(row.event + mark)
    return arrows


def _place(layer: int, row: int) -> Point:
    return MARGIN + ACROSS * (row + 0.5), MARGIN + 30 + DOWN * layer


def _box(placed: Layout, state: str) -> Box:
    x, y = _place(placed.layer[state], placed.row[state])
    width = max(len(state) * LETTER * 1.15 + 20, 70)
    return Box(x - width / 2, y, width, BOX)


def _way(placed: Layout, boxes: Mapping[str, Box], edge: Edge) -> Sequence[Curve]:
    """Downwards from a state to a lower one; otherwise out and back in on the right, around the states between."""
    source, target = boxes[edge[0]], boxes[edge[1]]
    if target.top > source.top:
        passed = [_place(*bend) for bend in placed.bends.get(edge, ())]
        points = [_bottom(source), *((x, y + BOX / 2) for x, y in passed), _top(target)]
        return [_bent(here, there) for here, there in pairwise(points)]
    return [_around_right(source, target)]


def _around_right(source: Box, target: Box) -> Curve:
    right = source.left + source.width, target.left + target.width
    far = max(right) + 45 + 0.3 * abs(source.top - target.top) + 0.5 * abs(right[0] - right[1])
    # An arrow from a state to itself leaves it above the middle, and comes back below.
    apart = BOX / 6 if source is target else 0.0
    out, back = source.top + BOX / 2 - apart, target.top + BOX / 2 + apart
    return (right[0], out), (far, out - 2 * apart), (far, back + 2 * apart), (right[1], back)


def _words(
    arrows: Mapping[Edge, Sequence[str]], ways: Mapping[Edge, Sequence[Curve]], boxes: Mapping[str, Box]
) -> Iterator[tuple[Sequence[str], Box]]:
    """The events of each arrow, placed so that they cover neither a state nor other labels, if possible."""
    used = list(boxes.values())
    for edge, events in arrows.items():
        size = max(map(len, events)) * LETTER + 6, len(events) * LINE
        options = [_around(_point(ways[edge], place), *size) for place in PLACES]
        chosen = min(options, key=lambda box: sum(box.meets(other) for other in used))
        used.append(chosen)
        yield events, chosen


def _around(middle: Point, width: float, height: float) -> Box:
    return Box(middle[0] - width / 2, middle[1] - height / 2, width, height)


def _point(way: Sequence[Curve], place: float) -> Point:
    """A point of a path, from 0 (its start) to 1 (its end)."""
    curve, within = way[min(int(place * len(way)), len(way) - 1)], place * len(way) % 1
    parts = ((1 - within) ** 3, 3 * within * (1 - within) ** 2, 3 * within**2 * (1 - within), within**3)
    return (
        sum(part * corner[0] for part, corner in zip(parts, curve, strict=True)),
        sum(part * corner[1] for part, corner in zip(parts, curve, strict=True)),
    )


def _beginning(top: Point) -> Iterator[str]:
    """A dot that leads to the first state."""
    x, y = top
    yield f'<circle cx="{x:.0f}" cy="{y - 18:.0f}" r="5"/>'
    yield _path([((x, y - 13), (x, y - 13), top, top)])


def _top(box: Box) -> Point:
    return box.left + box.width / 2, box.top


def _bottom(box: Box) -> Point:
    return box.left + box.width / 2, box.top + box.height


def _bent(here: Point, there: Point) -> Curve:
    middle = (here[1] + there[1]) / 2
    return here, (here[0], middle), (there[0], middle), there


def _path(way: Sequence[Curve]) -> str:
    steps = " ".join("C" + " ".join(f"{x:.0f},{y:.0f}" for x, y in curve[1:]) for curve in way)
    return f'<path class="arrow" d="M{way[0][0][0]:.0f},{way[0][0][1]:.0f} {steps}"/>'


def _state(name: str, box: Box, *, end: bool) -> str:
    kind = "end" if end else "state"
    shape = f'x="{box.left:.0f}" y="{box.top:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="5"'
    return f'<rect class="{kind}" {shape}/>' + _text("state", box, [name])


def _text(kind: str, box: Box, lines: Sequence[str]) -> str:
    x, first = box.left + box.width / 2, box.top + box.height / 2 - (len(lines) - 1) * LINE / 2 + 4
    return "".join(
        f'<text class="{kind}" x="{x:.0f}" y="{first + number * LINE:.0f}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
