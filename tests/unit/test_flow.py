"""The flow of a pipeline, and its drawing."""

import itertools
from dataclasses import dataclass, field

from headgate.core.layout import layout
from headgate.core.ledger.flow import edges_of, flow_order, made_from
from headgate.core.ledger.model import Dataset, Job
from headgate.http.dashboard.pipeline.drawing import LAYERS, draw

NAMES = ("archive", "lookup", "maps", "raw", "tidy")
JOBS = [Job("clean", ("raw",), ("tidy",)), Job("draw", ("tidy", "lookup"), ("maps",))]


def test_datasets_are_in_flow_order_and_unused_ones_are_last() -> None:
    order = flow_order([Dataset(name) for name in NAMES], JOBS)
    assert order == ["lookup", "raw", "tidy", "maps", "archive"]
    assert made_from("raw", edges_of(JOBS)) == {"tidy", "maps"}
    assert made_from("archive", edges_of(JOBS)) == set()
    assert made_from("a", [("a", "b"), ("b", "a")]) == {"a", "b"}, "a ring ends"


@dataclass(frozen=True)
class Drawn:
    id: str
    lines: list[tuple[str, str]] = field(default_factory=lambda: [("READY", "3 READY")])


def test_a_flow_of_any_length_is_as_wide_as_a_page_and_no_box_covers_another() -> None:
    for length in (1, 2, LAYERS, LAYERS + 1, 40):
        names = [str(number) for number in range(length)]
        edges = [*itertools.pairwise(names), *zip(names, names[3:], strict=False)]
        picture = draw(layout(names, edges), {name: Drawn(name) for name in names}, edges)
        assert picture.width <= 1200
        assert len(picture.paths) == len(set(edges))
        places = {(box.x, box.y) for box in picture.boxes}
        assert len(places) == length
        assert all(box.y >= 0 and box.y + box.height <= picture.height for box in picture.boxes)
