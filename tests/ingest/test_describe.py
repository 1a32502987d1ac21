"""Descriptions: ERC and Dublin Core are read as they were written, and untrusted XML reaches no file or network."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue, MissingExtra
from headgate.core.queue.model import Identifiers
from headgate.ingest.formats import descriptions as describe
from headgate.ingest.formats.descriptions import (
    Description,
    combined,
    read_dublin_core,
    read_erc,
    said,
    write_dublin_core,
    write_erc,
)
from headgate.service.queue.checks import DUBLIN_CORE
from tests.ingest.manifests import locals_

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(str.strip)
ARK = "ark:/13030/m5br8stc"


# ---------------------------------------------------------------- ERC


def test_the_text_of_an_erc() -> None:
    described = Description("Proust, Marcel", "In search", "1913")
    assert write_erc(described, ARK, ["loc1", "loc2"]) == (
        "erc: \nwho: Proust, Marcel\nwhat: In search\nwhen: 1913\nwhere: ark:/13030/m5br8stc\nwhere: loc1; loc2\n"
    )
    assert write_erc(Description(what="50%\nmore"), ARK, []).splitlines()[1:] == [
        "who: (:unas)", "what: 50%25%0Amore", "when: (:unas)", f"where: {ARK}", "where: (:unas)",
    ]  # fmt: skip


@given(texts, texts, texts, locals_)
def test_an_erc_is_read_again_as_written(who: str, what: str, when: str, local: tuple[str, ...]) -> None:
    local = tuple(each for each in local if not each.lower().startswith("ark:"))
    described = Description(who, what, when)
    assert read_erc(write_erc(described, ARK, local)) == describe.Erc(described, Identifiers(ARK, local))


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        (
            "erc:\nwho: A\nwhat: B\nwhen: C\nwhere: ark:13030/m5-br8stc\nwhere: l1 ; l2\n",
            Identifiers(ARK, ("l1", "l2")),
        ),
        ("erc: A | B | C | http://h/x", Identifiers("", ("http://h/x",))),
        ("erc: A | B | C", Identifiers()),
        ("who: A\nwhat: B\nwhen: C\nnote: x\nwhere: l1\nwhere: ARK:/13030/m5br8stc", Identifiers(ARK, ("l1",))),
    ],
)
def test_every_form_of_an_erc(text: str, identifiers: Identifiers) -> None:
    assert read_erc(text) == describe.Erc(Description("A", "B", "C"), identifiers)


def test_characters_that_a_database_rejects_are_replaced() -> None:
    assert read_erc("who: a%00b").description.who == "a\ufffdb"
    assert describe.said({"erc_what": "a\0b", "dc_title": "\ud800"}) == Description(
        what="a\ufffdb", dublin_core={"title": ("\ufffd",)}
    )


def test_a_long_value_is_cut_and_a_wrong_ark_refused() -> None:
    assert len(read_erc("what: " + "x" * 4000).description.what) == 3500
    with pytest.raises(BadValue, match="ARK"):
        read_erc("where: ark:/1/x")


# ---------------------------------------------------------------- Dublin Core


def test_the_text_of_dublin_core() -> None:
    assert write_dublin_core({"title": ["A & <B>"], "creator": ["One", "Two"]}).decode() == (
        "<?xml version='1.0' encoding='UTF-8'?>\n"
        '<DublinCore xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:dc="http://purl.org/dc/elements/1.1/">\n'
        "  <dc:creator>One</dc:creator>\n  <dc:creator>Two</dc:creator>\n  <dc:title>A &amp; &lt;B&gt;</dc:title>\n"
        "</DublinCore>\n"
    )
    assert read_dublin_core(write_dublin_core({})) == Description()


@given(st.dictionaries(st.sampled_from(DUBLIN_CORE), st.lists(texts.filter(bool), min_size=1, max_size=3)))
def test_dublin_core_is_read_again_as_written(fields: Mapping[str, list[str]]) -> None:
    # XML cannot represent two code points that are not characters.
    kept = {
        name: tuple(v.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd") for v in fields[name]) for name in fields
    }
    assert read_dublin_core(write_dublin_core(fields)).dublin_core == kept


def test_control_characters_do_not_break_the_xml() -> None:
    assert read_dublin_core(write_dublin_core({"title": ["a\0\x1bb"]})).what == "a\ufffd\ufffdb"


def test_dublin_core_of_a_depositor_is_read() -> None:
    data = b"""<?xml version="1.0" encoding="ISO-8859-1"?>
    <oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/">
      <!-- a comment --><dc:title> Caf\xe9 <b>bold</b></dc:title><dc:creator>A</dc:creator><dc:creator>B</dc:creator>
      <dc:date>1999</dc:date><dc:nonsense>x</dc:nonsense><title>not of Dublin Core</title><dc:subject/>
    </oai_dc:dc>"""
    described = read_dublin_core(data)
    assert (described.who, described.what, described.when) == ("A; B", "Caf\u00e9 bold", "1999")
    assert described.dublin_core == {"title": ("Caf\u00e9 bold",), "creator": ("A", "B"), "date": ("1999",)}


def test_datacite_of_a_depositor_is_read() -> None:
    data = b"""<resource xmlns="http://datacite.org/schema/kernel-4"><creators><creator><creatorName>A</creatorName></creator>
      <creator><creatorName>B</creatorName></creator></creators><titles><title>T</title></titles>
      <publicationYear>2001</publicationYear></resource>"""
    assert describe.read_datacite(data) == Description("A; B", "T", "2001")


def entity(target: str) -> bytes:
    head = f'<!DOCTYPE x [<!ENTITY e SYSTEM "{target}">]>'
    return f'{head}<x xmlns:dc="{describe._DC}"><dc:title>&e;</dc:title></x>'.encode()


LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha">' + b"".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">'.encode() for n in range(12)
) + b"]><x>&m;</x>"  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-32"])
def test_a_document_type_is_refused_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("top secret")
    for data in (entity(secret.as_uri()), entity("http://127.0.0.1:1/x"), LAUGHS, b'<!DOCTYPE x SYSTEM "x.dtd"><x/>'):
        with pytest.raises(BadValue, match="is not allowed") as error:
            read_dublin_core(data.decode().encode(encoding))
        assert "top secret" not in str(error.value)


def test_a_document_type_that_an_encoding_hides_is_refused_too() -> None:
    data = b'<?xml version="1.0" encoding="UTF-7"?>+ADwAIQ-DOCTYPE x SYSTEM +ACI-x.dtd+ACI +AD4APA-x/+AD4-'
    with pytest.raises(BadValue, match="mrt-dc"):
        read_dublin_core(data)
    cp037 = '<?xml version="1.0" encoding="CP037"?><!DOCTYPE x [<!ENTITY e "ha">]><x>&e;</x>'.encode("cp037")
    with pytest.raises(BadValue, match="mrt-dc"):
        read_dublin_core(cp037)


@pytest.mark.parametrize(
    "data", [b"", b"x", b"<x>", b"<x></y>", b"<x>&undefined;</x>", b"<x\0/>", b"\xff\xfe", b"<x>\xff</x>"]
)
def test_malformed_xml_is_refused(data: bytes) -> None:
    with pytest.raises(BadValue, match="is not readable XML"):
        read_dublin_core(data)


def test_an_attribute_of_ten_megabytes_is_not_read() -> None:
    with pytest.raises(BadValue, match="is too large"):
        read_dublin_core(b'<x a="' + b"y" * 10_000_000 + b'"/>')


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for wrapped in (data, b"<x>" + data + b"</x>"):
        try:
            read_dublin_core(wrapped)
        except BadValue as error:
            told = error.what
            assert told == "mrt-dc.xml"


def test_without_lxml_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(MissingExtra, match=r"headgate\[ingest\]"):
        write_dublin_core({})


# ---------------------------------------------------------------- precedence


def test_the_metadata_in_a_configuration() -> None:
    described = said(
        {"erc_who": "A", "erc_when": 1999, "dc_subject": "x; y;x", "dc_title": "a; b", "dc_rights": "mine",
         "dc_creator": ["p", "q"], "payload_url": "http://h", "erc_what": None}
    )  # fmt: skip
    assert (described.who, described.what, described.when) == ("A", "", "1999")
    assert described.dublin_core == {
        "subject": ("x", "y"),
        "title": ("a; b",),
        "rights": ("mine",),
        "creator": ("p", "q"),
    }


def test_dublin_core_fills_gaps_and_datacite_and_erc_take_precedence() -> None:
    given_ = Description(who="form", dublin_core={"title": ("form",)})
    core = Description("dc", "dc", "dc", {"title": ("dc", "form"), "date": ("dc",)})
    cite = Description(what="cite", when="cite")
    erc = Description(when="erc")
    assert combined(given_, None, None, None) == given_
    result = combined(given_, core, cite, erc)
    assert (result.who, result.what, result.when) == ("form", "cite", "erc")
    assert result.dublin_core == {"title": ("dc", "form"), "date": ("dc",)}
    assert combined(given_, core, None, None).what == "dc"
