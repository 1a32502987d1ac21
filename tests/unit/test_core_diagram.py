"""The diagrams of the state tables: complete, inside their frame, and without text over a state."""

import re

import pytest

from headgate.core.tables.diagram import draw
from headgate.core.tables.machine import Machine
from headgate.core.tables.states import MACHINES

RECTS = re.compile(r'<rect class="(?:state|end)" x="([\d.-]+)" y="([\d.-]+)" width="([\d.-]+)" height="([\d.-]+)"')
TEXTS = re.compile(r'<text class="(\w+)" x="([\d.-]+)" y="([\d.-]+)">([^<]+)<')


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def machine(request: pytest.FixtureRequest) -> Machine:
    found: Machine = request.param
    return found


def test_every_state_and_every_event_is_in_the_diagram(machine: Machine) -> None:
    texts = TEXTS.findall(draw(machine))
    assert sorted(text for kind, _, _, text in texts if kind == "state") == sorted(machine.states)
    arrows = {(row.source, row.target, row.event) for row in machine.rows}
    assert sorted(text for kind, _, _, text in texts if kind == "event") == sorted(event for _, _, event in arrows)


def test_rows_that_tests_executed_are_marked(machine: Machine) -> None:
    first = machine.rows[0]
    texts = [text for kind, _, _, text in TEXTS.findall(draw(machine, {first.name})) if kind == "event"]
    assert f"{first.event} ✓" in texts
    assert any(text.endswith("(not taken)") for text in texts)


def test_the_diagram_fits_its_frame_and_no_label_covers_a_state(machine: Machine) -> None:
    picture = draw(machine)
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
    assert found
    points = [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", picture)]
    assert all(0 <= x <= float(found[1]) and 0 <= y <= float(found[2]) for x, y in points)
    boxes = [tuple(map(float, box)) for box in RECTS.findall(picture)]
    for kind, x, y, text in TEXTS.findall(picture):
        on = [box for box in boxes if box[0] < float(x) < box[0] + box[2] and box[1] < float(y) < box[1] + box[3]]
        assert len(on) == (kind == "state"), text
