"""ANVL: written text can be read again, and EZID's reader would read the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue
from headgate.ingest.formats import anvl
from tests.ingest.ezid_server import read_as_ezid

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(str.strip)
labels = texts.filter(bool)
pairs = st.lists(st.tuples(labels, texts), max_size=6)


@given(pairs, st.sampled_from([" ", "\t", ""]))
def test_written_records_can_be_read_again(written: anvl.Pairs, gap: str) -> None:
    text = anvl.write(written, gap)
    assert anvl.read(text) == written
    assert text.count("\n") == len(written)


@given(st.dictionaries(labels, texts, max_size=6))
def test_labels_that_occur_once_are_read_as_a_dictionary(written: dict[str, str]) -> None:
    assert anvl.read_unique(anvl.write(written.items())) == written


def test_the_characters_that_would_end_a_line_or_label_are_encoded() -> None:
    assert anvl.write([("a:b%", "c:d%\r\ne"), ("#x", " y ")]) == "a%3Ab%25: c:d%25%0D%0Ae\n%23x: y\n"
    assert anvl.write([("who", "A")], "\t") == "who:\tA\n"


def test_comments_blank_lines_and_continued_lines() -> None:
    text = "# a comment\r\nerc:\nwho: Proust,\r  Marcel\n# between\n\t (author) \n\nwhat:%20x%0Ay\n"
    assert anvl.read(text) == [("erc", ""), ("who", "Proust, Marcel (author)"), ("what", "x\ny")]
    assert anvl.read("") == []


def test_a_label_may_occur_twice_unless_that_is_forbidden() -> None:
    text = "where: a\nwhere: b\n"
    assert anvl.read(text) == [("where", "a"), ("where", "b")]
    with pytest.raises(BadValue, match="ANVL label 'where' appears twice"):
        anvl.read_unique(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: b\nno colon", "ANVL line 2 'no colon' has no colon"),
        (": b", "has no label"),
        ("  b", "continues a line that does not exist"),
        ("a: b\n\n  c", "ANVL line 3 .* continues"),
        ("a: 5%", "has a % without"),
        ("a%4: 5", "has a % without"),
    ],
)
def test_malformed_anvl_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        anvl.read(text)


def test_an_empty_label_is_not_written() -> None:
    with pytest.raises(BadValue, match="is empty"):
        anvl.write([(" ", "x")])


@given(
    st.lists(
        st.sampled_from(["a", "b", ":", "%", "%41", "%0A", "%20", "#", " ", "\t", "\n", "\r\n", "\n\n", "\u00e9"]),
        max_size=25,
    )
)
def test_any_text_is_read_as_ezid_reads_it(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        ours = anvl.read_unique(text)
    except BadValue:
        ours = None
    assert ours == read_as_ezid(text)
