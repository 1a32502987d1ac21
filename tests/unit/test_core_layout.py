"""Positions of the nodes of a graph."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.layout import Edge, layout

NAMES = [f"n{number}" for number in range(12)]
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda e: e[0] != e[1]), max_size=30)


def test_a_chain_is_drawn_in_one_line() -> None:
    found = layout(["c", "b", "a"], [("a", "b"), ("b", "c")])
    assert (found.order, found.width, found.height) == (["a", "b", "c"], 3, 1)
    assert found.layer == {"a": 0, "b": 1, "c": 2}


def test_crossing_lines_are_untangled() -> None:
    found = layout(["a", "b", "x", "y"], [("a", "y"), ("b", "x")])
    assert (found.row["a"] < found.row["b"]) == (found.row["y"] < found.row["x"])


def test_an_edge_that_passes_a_layer_has_its_own_place_there() -> None:
    found = layout(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    ((layer, row),) = found.bends["a", "c"]
    assert layer == found.layer["b"]
    assert row != found.row["b"]


def test_a_ring_is_drawn_without_the_edge_that_closes_it() -> None:
    found = layout(["a", "b"], [("a", "b"), ("b", "a")])
    assert found.layer == {"a": 0, "b": 1}
    assert set(found.bends) == {("a", "b")}


def test_an_empty_graph_has_an_empty_layout() -> None:
    assert (layout([], []).width, layout([], []).height) == (0, 0)


@given(EDGES)
def test_every_edge_leads_to_the_right_and_no_two_nodes_share_a_place(edges: list[Edge]) -> None:
    found = layout(NAMES, edges)
    assert sorted(found.order) == sorted(NAMES)
    assert all(found.layer[source] < found.layer[target] for source, target in found.bends)
    taken = [(found.layer[name], found.row[name]) for name in NAMES]
    taken += [place for way in found.bends.values() for place in way]
    assert len(set(taken)) == len(taken)
    assert all(layer < found.width and row < found.height for layer, row in taken)
