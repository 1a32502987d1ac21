"""Manifests: read as Merritt reads them, all mistakes at once with their lines, and read again as written."""

import contextlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate import BadManifest, BadValue
from headgate.ingest.formats import manifest
from headgate.ingest.formats.checkm import LONGEST_LINE
from headgate.ingest.formats.file_names import collisions
from headgate.ingest.formats.manifest import (
    BATCH,
    CONTAINERS,
    CONTENTS,
    LAYOUTS,
    OBJECT,
    SINGLE_FILES,
    STORAGE,
    FoundFile,
    ManifestEntry,
    ManifestLayout,
)
from tests.ingest.manifests import file_names, locals_, rows, texts

MD5 = "0b21c6d48e815dd537d42dc1cfac0111"
STORAGE_COLUMNS = [
    "nfo:fileUrl", "nfo:hashAlgorithm", "nfo:hashValue", "nfo:fileSize", "nfo:fileLastModified", "nfo:fileName",
    "mrt:mimeType",
]  # fmt: skip
BATCHES = (BATCH, CONTAINERS, SINGLE_FILES)

OBJECT_TEXT = f"""#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest
#%prefix | mrt: | http://merritt.cdlib.org/terms#
#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#
#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName
https://h/4blocks.jpg | md5 | {MD5} |  |  | 4blocks.jpg
https://h/dir/b.jpg | MD-5 | {MD5.upper()} | 17 | 2009-09-01T10:00:00 | in/b.jpg | image/jpeg
https://h/dir/c.jpg?x=1
#%eof
"""

BATCH_TEXT = """#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-container-batch-manifest
#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName
https://h/huskyChicken.zip |  |  |  |  | huskyChicken.zip |  |  | Tracy Seneca | Husky Chicken | 2009-09-01
https://h/a/outdoor.zip |  |  |  |  |  | ark:13030/m5-abc | loc1;loc2; loc1 |  | The Outdoor Store, Portland OR
#%eof
"""


def problems_of(text: str | bytes, *expected: manifest.ManifestLayout, **limits: int) -> list[tuple[int, str]]:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(BadManifest) as error:
        manifest.parse(data, expected or (OBJECT,), **limits)
    return list(error.value.problems)


def names_of(text: str) -> list[str]:
    return [entry.name for entry in manifest.parse(text.encode(), (OBJECT,)).entries]


def with_rows(*lines: str) -> str:
    return "\n".join([*lines, "#%eof"])


# ---------------------------------------------------------------- reading


def test_an_object_manifest_from_production_is_read() -> None:
    read = manifest.parse(OBJECT_TEXT.encode(), (OBJECT,))
    assert read.layout is OBJECT
    assert read.entries == (
        ManifestEntry("https://h/4blocks.jpg", "4blocks.jpg", "md5", MD5, line=6),
        ManifestEntry(
            "https://h/dir/b.jpg",
            "in/b.jpg",
            "md5",
            MD5,
            17,
            datetime(2009, 9, 1, 10, tzinfo=UTC),
            "image/jpeg",
            line=7,
        ),
        ManifestEntry("https://h/dir/c.jpg?x=1", "dir/c.jpg", line=8),
    )


def test_a_batch_manifest_from_production_is_read() -> None:
    read = manifest.parse(BATCH_TEXT.encode(), BATCHES)
    assert read.layout is CONTAINERS
    first, second = read.entries
    assert (first.name, first.creator, first.title, first.date) == (
        "huskyChicken.zip", "Tracy Seneca", "Husky Chicken", "2009-09-01",
    )  # fmt: skip
    assert (second.name, second.primary, second.local) == ("aoutdoor.zip", "ark:/13030/m5abc", ("loc1", "loc2"))
    assert (second.title, second.creator) == ("The Outdoor Store, Portland OR", "")


#: A heading for each column that takes no other.
CELLS = {
    "fileURL": "https://example.org/a.txt", "hashAlgorithm": "sha-256", "hashValue": "0" * 64, "fileSize": "7",
    "fileLastModified": "2026-11-15T00:00:00Z", "primaryIdentifier": "ark:/99999/fk4abc", "mimeType": "text/plain",
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_column_is_ignored(layout: ManifestLayout) -> None:
    def read(cells: list[str]) -> object:
        text = f"#%checkm_0.7\n#%profile | {layout.profile}\n{' | '.join(cells)}\n#%eof\n"
        try:
            return manifest.parse(text.encode(), LAYOUTS).entries
        except BadManifest as error:
            return str(error)

    full = [CELLS.get(column, "word") for column in layout.columns]
    assert not isinstance(read(full), str)
    without = {column: read([*full[:place], "", *full[place + 1 :]]) for place, column in enumerate(layout.columns)}
    assert [column for column, found in without.items() if found == read(full)] == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_profile_has_two_addresses(layout: manifest.ManifestLayout) -> None:
    cells = "a.txt" if layout is CONTENTS else "http://h/a.txt"
    for profile in (layout.profile, f"http://uc3.cdlib.org/registry/mrt/{layout.name}"):
        text = with_rows(f"#%profile | {profile} ", cells)
        assert manifest.parse(text.encode(), LAYOUTS).layout is layout


def test_without_any_header_it_is_of_the_first_kind_that_is_expected() -> None:
    assert manifest.parse(b"http://h/a\n#%eof", (CONTAINERS, BATCH)).layout is CONTAINERS


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", ["#%eof", "#%EOF", "#%Eof | really"])
def test_every_line_end_a_byte_order_mark_and_an_end_marker_in_any_case(end: str, bom: bytes, last: str) -> None:
    text = OBJECT_TEXT.replace("#%eof", last).replace("\n", end)
    read = manifest.parse(bom + text.encode(), (OBJECT,))
    assert read == manifest.parse(OBJECT_TEXT.encode(), (OBJECT,)) == manifest.parse(text.rstrip().encode(), (OBJECT,))


def test_comments_blank_lines_and_columns_beyond_the_last_are_ignored() -> None:
    text = with_rows("# a comment", "", "   \t ", "http://h/a||||||m|x|y|z", "#another", "http://h/b")
    assert names_of(text) == ["a", "b"]


def test_blanks_around_bars_are_not_part_of_a_cell_but_encoded_ones_are() -> None:
    text = with_rows("  http://h/x \t|  |\t|||%20a%20b%7cc%7C", "http://h/y|||||2%2525")
    assert names_of(text) == [" a b|c%7C", "2%2525"]


def test_a_line_separator_that_is_no_line_end_is_reported_as_part_of_the_name() -> None:
    assert problems_of(with_rows("http://h/a|||||x\u2028y"))[0][1].startswith("file name 'x\\u2028y' has the character")


def test_half_a_digest_is_not_accepted() -> None:
    read = manifest.parse(
        with_rows("http://h/a | md5", "http://h/b || abc", "http://h/c|whirlpool").encode(), (OBJECT,)
    )
    assert {(entry.algorithm, entry.digest) for entry in read.entries} == {("", "")}


@pytest.mark.parametrize(
    ("spelling", "value", "algorithm"),
    [
        ("SHA-256", "A" * 64, "sha256"),
        ("sha1", "0" * 40, "sha1"),
        ("CRC32", "1f", "crc32"),
        ("Sha-512", "c" * 128, "sha512"),
    ],
)
def test_spellings_of_an_algorithm_are_equal(spelling: str, value: str, algorithm: str) -> None:
    (entry,) = manifest.parse(with_rows(f"http://h/a|{spelling}|{value}").encode(), (OBJECT,)).entries
    assert (entry.algorithm, entry.digest) == (algorithm, value.lower().zfill(8))


def test_an_unreadable_time_is_ignored() -> None:
    assert manifest.parse(with_rows("http://h/a||||yesterday").encode(), (OBJECT,)).entries[0].modified is None


def test_the_placeholder_for_unassigned_is_not_an_identifier() -> None:
    (entry,) = manifest.parse(with_rows("http://h/a||||||(:unas)|(:unas)").encode(), BATCHES).entries
    assert (entry.primary, entry.local) == ("", ())


def test_objects_of_a_batch_may_have_payloads_of_one_name() -> None:
    assert len(manifest.parse(with_rows("http://h/a|||||x.zip", "http://h/b|||||x.zip").encode(), BATCHES).entries) == 2


# ---------------------------------------------------------------- mistakes


def test_every_mistake_is_reported_at_once_with_its_line() -> None:
    text = "\n".join(
        [
            "#%checkm_0.7",
            f"#%profile | {OBJECT.profile}",
            "http://h/fine | sha256",
            "gopher://h/x | md6 | 12 | many |  | ../x",
            "http://h/a | md5 | 12 |  |  | A.txt",
            "http://h/b |  |  | -1 |  | A\u200d.txt",
            "#%prefix | late: | x",
            "http://h/c, md5, abc",
        ]
    )
    assert problems_of(text) == [
        (4, "URL 'gopher://h/x' does not start with one of http://, https://, s3://, file://"),
        (4, "file name '../x' has the part '..'; remove it"),
        (
            4,
            (
                "digest algorithm 'md6' is not one of adler32, crc32, md5, sha1, sha256, sha384, sha512; "
                "did you mean 'md5'?"
            ),
        ),
        (4, "size 'many' is not a number of bytes"),
        (5, "digest '12' is not the 32 hexadecimal digits of md5"),
        (6, "size '-1' is not a number of bytes"),
        (6, "file name 'A\\u200d.txt' differs from 'A.txt' only in how letters are encoded (line 5)"),
        (7, "a header line (#%) follows the first entry"),
        (8, "it has no bar; columns are separated by ' | '"),
        (0, "the end marker (#%eof) is missing; the manifest may be incomplete"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 0, "it is empty"),
        ("\ufeff", 0, "it is empty"),
        ("#%eof", 0, "it has no entries"),
        ("http://h/a\n", 0, "the end marker"),
        ("http://h/a\n#%eof\n\n", 3, "must be the last line, but more lines follow"),
        ("http://h/a\n#%eof\nhttp://h/b\n", 3, "must be the last line, but more lines follow"),
        ("#%checkm_0.7\nhttp://h/a\n#%eof", 0, "no '#%profile"),
        ("#%Profile | x\nhttp://h/a\n#%eof", 0, "no '#%profile"),
        ("#%profile| x\nhttp://h/a\n#%eof", 0, "no '#%profile"),
        (f"#%profile | {BATCH.profile}\nhttp://h/a\n#%eof", 0, "its profile is .*mrt-batch-manifest; here it must be"),
        (f"#%profile | {OBJECT.profile}x\nhttp://h/a\n#%eof", 0, "its profile is"),
        (b"http://h/a|||||\xff\xfe\n#%eof", 1, r"byte 16 \(0xff\) is not UTF-8"),
        ("http://h/a|||||caf\u00e9\n#%eof".encode("latin-1"), 1, "is not UTF-8"),
        ("http://h/a\n#%eof".encode("utf-16"), 0, "it is UTF-16; save it as UTF-8"),
        ("http://h/a|||||a\0b\n#%eof", 1, r"control character U\+0000"),
        ("http://h/a\tb|||||a\n#%eof", 1, "has a blank or a control character"),
        ("|md5\n#%eof", 1, "URL '' is missing"),
        ("http://\n#%eof", 1, "has no host"),
        ("http://h:port/a\n#%eof", 1, "cannot be read"),
        ("http://[h/a\n#%eof", 1, "cannot be read"),
        ("file://host/etc/x\n#%eof", 1, "does not have the form file:///path"),
        ("http://h\n#%eof", 1, "no file name is given, and the URL's '' is empty"),
        ("http://h/../../x\n#%eof", 1, "no file name is given"),
        ("http://h/a|md2|ab\n#%eof", 1, "digest algorithm 'md2' is not one of"),
        ("http://h/a|md5|zz\n#%eof", 1, "digest 'zz' is not"),
        ("http://h/a|||1e9\n#%eof", 1, "size '1e9'"),
        ("http://h/a|||99999999999999999999\n#%eof", 1, "size"),
        ("http://h/a|||\u0661\n#%eof", 1, "size"),
        ("http://h/a|||||x \n#%eof", 1, "ends with a dot or a blank"),
        ("http://h/a\nhttp://h/a\n#%eof", 2, r"file name 'a' is used already \(line 1\)"),
        ("http://h/a\nhttp://h/a/b\n#%eof", 2, "both a file and a folder"),
    ],
)
def test_mistakes_are_reported_with_their_line(text: str | bytes, line: int, what: str) -> None:
    ((found_line, found),) = problems_of(text)
    assert found_line == line
    with pytest.raises(ValueError, match=what):
        raise ValueError(found)


def test_a_wrong_identifier_of_a_batch_is_reported() -> None:
    assert "ARK 'ark123'" in problems_of(with_rows("http://h/a||||||ark123"), *BATCHES)[0][1]
    assert "names a part" in problems_of(with_rows("http://h/a||||||ark:/13030/m5/c1"), *BATCHES)[0][1]


def test_a_password_in_a_wrong_url_is_not_shown() -> None:
    assert "secret" not in problems_of(with_rows("ftp://me:secret@h/a"))[0][1]


def test_an_oversized_manifest_is_not_read() -> None:
    assert problems_of(b"x" * 101, limit=100) == [(0, "it has 101 bytes; at most 100 are allowed")]
    text = with_rows(*(f"http://h/{number}" for number in range(11)))
    assert problems_of(text, most=10) == [
        (0, "it has more than the 10 entries that are allowed; the rest was not read")
    ]
    assert len(manifest.parse(text.encode(), (OBJECT,), most=11).entries) == 11


def test_a_manifest_designed_to_be_slow_is_read_quickly() -> None:
    """Each would take minutes if the time grew quadratically with its length."""
    for start, unit, end in (
        ("http://h/a", " ", "b"),
        ("http://h/a|||||", "x", ""),
        ("http://h/a|||||a", " ", "b"),
        ("http://h/?", "&password", ""),
        ("http://h/a||||||", "/ark:", "\x7f"),
        ("http://h/a|||||||", "l;", ""),
        ("http://h/a||||||||c", " ", "c"),
        ("", "|", ""),
        ("#%profile ", "| ", ""),
    ):
        row = start + unit * ((LONGEST_LINE - 100) // len(unit)) + end
        with contextlib.suppress(BadManifest):
            manifest.parse(with_rows(row).encode(), (CONTAINERS,))


def test_descriptions_are_truncated_and_local_ids_are_not() -> None:
    (entry,) = manifest.parse(with_rows("http://h/a|||||||||" + "x" * 4000).encode(), BATCHES).entries
    assert len(entry.title) == 3500
    assert "more than 255 characters" in problems_of(with_rows("http://h/a|||||||" + "x" * 256), *BATCHES)[0][1]
    assert (
        "has 3,000 characters; at most 2,048 are allowed"
        in problems_of(with_rows("http://h/" + "x" * 2991), *BATCHES)[0][1]
    )


def test_every_mistake_of_one_row_is_reported() -> None:
    with pytest.raises(BadManifest) as caught:
        manifest.parse(with_rows(f"http://h/a |  |  | many |  | x.zip | no ark | {'l' * 300}").encode(), BATCHES)
    assert [what.split(" ")[0] for _, what in caught.value.problems] == ["size", "ARK", "local"]


def test_a_long_list_of_mistakes_is_cut_off() -> None:
    found = problems_of("x\n" * 5000)
    assert len(found) == 1001
    assert found[-1] == (0, "there are 1,000 errors or more; the rest was not read")


@given(st.binary(max_size=200))
@example(b"#%profile |||\n|||\n#%eof")
def test_any_bytes_are_a_manifest_or_a_list_of_mistakes(data: bytes) -> None:
    for expected in ((OBJECT,), BATCHES, (CONTENTS,), (STORAGE,)):
        try:
            assert manifest.parse(data, expected).entries
        except BadManifest as error:
            told = error.problems
            assert told


# ---------------------------------------------------------------- written and read again


@given(st.sampled_from([OBJECT, BATCH, CONTAINERS, SINGLE_FILES, STORAGE]), st.lists(rows(), min_size=1, max_size=5))
def test_written_records_can_be_read_again(layout: manifest.ManifestLayout, entries: list[ManifestEntry]) -> None:
    entries = [only(layout, entry) for entry in entries]
    if not layout.payload and any(collisions(entry.name for entry in entries)):
        return
    read = manifest.parse(manifest.write(layout, entries), (layout,))
    assert read.layout is layout
    # The head has six lines.
    assert list(read.entries) == [replace(entry, line=line) for line, entry in enumerate(entries, 6)]


def only(layout: manifest.ManifestLayout, entry: ManifestEntry) -> ManifestEntry:
    """The fields of an entry that such a manifest can express."""
    if "title" not in layout.columns:
        return replace(entry, primary="", local=(), creator="", title="", date="")
    return replace(entry, mime="")


def test_the_storage_manifest_keeps_every_name_and_ends_at_its_marker() -> None:
    names = ["producer/a%20b", "producer/a%7cb", "producer/%2520", "producer/%", "producer/a|b", "system/mrt-erc.txt"]
    entries = [ManifestEntry(f"file:///q/{number}", name, size=number) for number, name in enumerate(names)]
    data = manifest.write(STORAGE, entries)
    assert data.endswith(b"\n#%eof")
    assert [entry.name for entry in manifest.parse(data, (STORAGE,)).entries] == names


def test_the_text_of_a_storage_manifest() -> None:
    entry = ManifestEntry(
        "file:///q/x", "producer/x", "sha256", "ab" * 32, 3, datetime(2026, 11, 15, tzinfo=UTC), "text/plain"
    )
    assert manifest.write(STORAGE, [entry]).decode().splitlines() == [
        "#%checkm_0.7",
        "#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-add-manifest",
        "#%prefix | mrt: | http://merritt.cdlib.org/terms#",
        "#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#",
        " | ".join(["#%columns", *STORAGE_COLUMNS]),
        f"file:///q/x | SHA-256 | {'ab' * 32} | 3 | 2026-11-15T00:00:00+00:00 | producer/x | text/plain",
        "#%eof",
    ]


@pytest.mark.parametrize(
    "entry",
    [
        ManifestEntry("http://h/a|b", "a"),
        ManifestEntry("http://h/a b", "a"),
        ManifestEntry("nowhere", "a"),
        ManifestEntry("http://h/a", "../a"),
        ManifestEntry("http://h/a", "a%20b"),
        ManifestEntry("http://h/a", "a", title="two\nlines"),
        ManifestEntry("http://h/a", "a", local=("one;two",)),
    ],
)
def test_values_that_could_not_be_read_back_are_not_written(entry: ManifestEntry) -> None:
    with pytest.raises(BadValue):
        manifest.write(BATCH, [entry])


def test_a_name_that_would_be_a_comment_is_not_written() -> None:
    with pytest.raises(BadValue, match="would be read as a comment"):
        manifest.write(CONTENTS, [ManifestEntry("", "#1.txt")])
    data = manifest.write(CONTENTS, [ManifestEntry("", "1.txt", size=0)])
    assert manifest.parse(data, (CONTENTS,)).entries[0].name == "1.txt"


def test_a_container_and_its_own_list_are_compared_both_ways() -> None:
    text = with_rows("a.txt | md5 | " + MD5 + " | 3", "b.txt | | | 4", "c.txt", f"d.txt | md5 | {MD5}")
    read = manifest.parse(text.encode(), (CONTENTS,))
    good = {
        name: FoundFile(size, {"md5": MD5}) for name, size in [("a.txt", 3), ("b.txt", 4), ("c.txt", 5), ("d.txt", 6)]
    }
    assert manifest.differences(read, good) == []
    bad = {**good, "b.txt": FoundFile(5, {}), "d.txt": FoundFile(6, {"md5": "0" * 32}), "e.txt": FoundFile(0, {})}
    del bad["c.txt"]
    assert manifest.differences(read, bad) == [
        (2, "'b.txt' has 5 bytes; expected 4"),
        (3, "'c.txt' is missing"),
        (4, "'d.txt': checksum mismatch: its md5 differs from the manifest"),
        (0, "'e.txt' is in the container, but not in the manifest"),
    ]


@given(texts, file_names, locals_)
def test_generated_rows_can_be_written(text: str, name: str, local: tuple[str, ...]) -> None:
    """The round trip above would prove nothing if its rows were refused."""
    assert manifest.write(STORAGE, [ManifestEntry("http://h/a", name)])
    assert manifest.write(BATCH, [ManifestEntry("http://h/a", "a", local=local, title=text)])
