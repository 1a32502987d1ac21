"""ARKs: spellings, the check character by the published vectors, and names that are never assigned twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue
from headgate.ingest.formats import ark
from headgate.ingest.formats.ark import BETANUMERIC, Ark, check_character, mint, mint_for, parse, parse_object

letters = st.text(BETANUMERIC, min_size=1, max_size=12)
numbers = st.integers(0, 10**10 - 1)
SHOULDER = "ark:/99999/fk4"
PINNED = [
    "ark:/99999/fk4zb1944m",
    "ark:/99999/fk4gz3hg4z",
    "ark:/99999/fk4w87w87r",
    "ark:/99999/fk48b5h25m",
    "ark:/99999/fk4v885275t9x",
    "ark:/99999/fk4c51bc0s292",
]
PINNED_OTHER = ["ark:/13030/m5fd6hw53", "ark:/99999/fk4wv81t4k"]


@pytest.mark.parametrize(
    "text",
    [
        "ark:/13030/m5br8stc",
        "ark:13030/m5br8stc",
        "ARK:/13030/m5br8stc",
        "https://n2t.net/ark:/13030/m5br8stc",
        "http://example.org/some/path/ark:13030/m5br8stc?info",
        "ark:/13030/m5-br8-stc",
        "ark:/13030/m5\u2010br8\u2014stc",
        "  ark:/13030/m5br8stc/ ",
        "ark:/13030//m5br8stc..",
        "ark:/13030/m5br8stc??",
    ],
)
def test_every_spelling_is_one_identifier(text: str) -> None:
    assert parse(text) == Ark("13030", "m5br8stc")
    assert str(parse(text)) == "ark:/13030/m5br8stc"
    assert ark.same(text, "ark:13030/m5br8stc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ark:/B5072/Fk2", Ark("b5072", "Fk2")),
        ("ark:/12345/x54%c2%ab", Ark("12345", "x54%C2%AB")),
        ("ark:/12345/x54/c3/s5.v7.xsl", Ark("12345", "x54", "/c3/s5.v7.xsl")),
        ("ark:/12345/x54.v2", Ark("12345", "x54", ".v2")),
        ("ark:/12345/x54//c3..v2", Ark("12345", "x54", "/c3.v2")),
    ],
)
def test_case_is_kept_but_for_the_authority_and_percent_codes(text: str, expected: Ark) -> None:
    assert parse(text) == expected
    assert not ark.same(text, text.replace("x54", "X54").replace("Fk2", "fk2"))


@pytest.mark.parametrize(
    "text",
    [
        "", "ark", "ark:/", "ark:/13030", "ark:/13030/", "ark:/13030/-", "ark:/13030/..", "doi:10.1/x", "ark:/1303/x",
        "ark:/abc/x", "ark:/13030/a b", "ark:/13030/a\nb", "ark:/13030/a%2", "ark:/13030/a%zz", "ark:/13030/\u00e9",
        "ark:/13030/x.v1/c2", "xark:/13030/m5", "ark:/13030/a|b", "ark:/13030/a\0", "ark:/ab ce/x", 7, None,
    ],
)  # fmt: skip
def test_a_malformed_ark_is_refused(text: object) -> None:
    with pytest.raises(BadValue, match="ARK"):
        parse(text)


@given(letters, letters)
def test_normalising_twice_changes_nothing(naan: str, name: str) -> None:
    given_ark = Ark("12345" + naan, name)
    assert parse(str(given_ark)) == given_ark
    assert parse(f"ARK:12345{naan.upper()}/-{name}") == given_ark


def test_the_ark_of_a_part_is_not_that_of_its_object() -> None:
    with pytest.raises(BadValue, match="names a part or variant"):
        ark.parse_object("ark:/13030/m5abc/c3")
    assert ark.parse_object("ark:/13030/m5abc").name == "m5abc"


def test_names_without_slashes() -> None:
    assert ark.dataid(parse("ark:/13030/m5abc"), 3) == "ark_13030_m5abc.v3"
    assert ark.lock_name(parse("ark:13030/m5-abc")) == "ark_13030_m5abc"


# ---------------------------------------------------------------- check character


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("13030/xf93gt2", "q"), ("99999/fk4rx9d52", "3"), ("99999/fk4tq65d6", "k"), ("13030/m5br8st", "c"),
        ("99933/x14w2", "j"), ("99933/x1159", "1"), ("99934/4w2", "q"), ("99934/x24w2", "0"),
    ],
)  # fmt: skip
def test_the_published_check_characters(text: str, expected: str) -> None:
    assert check_character(text) == expected


@given(st.text(BETANUMERIC, min_size=1, max_size=20), st.data())
def test_one_wrong_letter_or_two_swapped_ones_are_found(name: str, data: st.DataObject) -> None:
    text = f"13030/{name}"
    place = data.draw(st.integers(6, len(text) - 1))
    other = data.draw(st.sampled_from(BETANUMERIC.replace(text[place], "")))
    assert check_character(text[:place] + other + text[place + 1 :]) != check_character(text)
    whole = text + check_character(text)
    swapped = whole[:place] + whole[place + 1] + whole[place] + whole[place + 2 :]
    assert swapped == whole or check_character(swapped[:-1]) != swapped[-1]


# ---------------------------------------------------------------- minter


def test_names_stay_the_same_in_every_release() -> None:
    """These were assigned once: a change of the permutation would assign them to other objects."""
    assert [str(mint(SHOULDER, number)) for number in (0, 1, 2, 70_728_099, 70_728_100, 10**10 - 1)] == PINNED
    assert str(mint("ark:/13030/m5", 1)) == PINNED_OTHER[0]
    assert str(mint(SHOULDER, 1, b"key")) == PINNED_OTHER[1]


@given(numbers, numbers)
def test_a_number_has_one_name_and_a_name_one_number(one: int, other: int) -> None:
    first, second = mint(SHOULDER, one), mint(SHOULDER, other)
    assert (first == second) is (one == other)
    assert first == mint("ARK:99999/f-k4", one)


@given(numbers)
def test_a_name_is_checked_and_spells_no_word(number: int) -> None:
    made = mint(SHOULDER, number)
    assert check_character(f"{made.naan}/{made.name[:-1]}") == made.name[-1]
    assert made == parse(str(made))
    blade = made.name.removeprefix("fk4")[:-1]
    assert len(blade) == (6 if number < 8410**2 else 9)
    assert all(letter in "0123456789" for letter in blade[2::3])


@pytest.mark.parametrize("size", [1, 2, 3, 10, 29, 64, 65, 290, 841, 1000])
def test_the_shuffle_is_a_permutation(size: int) -> None:
    assert sorted(ark._shuffle(value, size, b"secret") for value in range(size)) == list(range(size))


def test_consecutive_numbers_give_scattered_names() -> None:
    names = [mint(SHOULDER, number).name for number in range(500)]
    assert len(set(names)) == 500
    assert names != sorted(names)
    assert len({name[3:5] for name in names}) > 250


def test_a_job_has_one_name() -> None:
    assert mint_for("jid0000000042", SHOULDER) == mint(SHOULDER, 42)
    assert mint_for("jid0000000042", SHOULDER, b"key") == mint(SHOULDER, 42, b"key")
    for wrong in ("bid0000000042", "42", "jid42"):
        with pytest.raises(BadValue):
            mint_for(wrong, SHOULDER)


@pytest.mark.parametrize("shoulder", ["ark:/99999/fk", "ark:/99999/fk4/a", "ark:/99999/", "99999/fk4", "ark:/99999/A4"])
def test_a_shoulder_ends_with_a_digit(shoulder: str) -> None:
    with pytest.raises(BadValue):
        mint(shoulder, 1)


@pytest.mark.parametrize("number", [-1, True, 1.5, "1"])
def test_a_number_counts_from_zero(number: int) -> None:
    with pytest.raises(BadValue, match="is not a whole number"):
        mint(SHOULDER, number)


@pytest.mark.parametrize("text", ["ark:/99999/fk4m3", "ark:/13030/m5_a=b", "ark:/b5072/x~1"])
def test_a_name_without_slashes_stands_for_its_ark(text: str) -> None:
    assert str(ark.of_lock_name(ark.lock_name(parse_object(text)))) == text


@pytest.mark.parametrize("name", ["ark", "ark_99999", "moby", "ark_99999_", "ark_99999_a.v1"])
def test_a_name_that_stands_for_no_object_is_refused(name: str) -> None:
    with pytest.raises(BadValue):
        ark.of_lock_name(name)
