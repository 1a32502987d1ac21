"""Generated rows of manifests."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from headgate import BadValue
from headgate.ingest.formats.digests import HEX_DIGITS
from headgate.ingest.formats.file_names import check_file_name
from headgate.ingest.formats.manifest import ManifestEntry, local_ids

_letters = st.characters(exclude_categories=["Cc", "Cs"])


def _writable(text: str) -> bool:
    return "%20" not in text and "%7c" not in text


def _is_name(text: str) -> bool:
    try:
        return check_file_name(text) == text
    except BadValue:
        return False


def _is_local(text: str) -> bool:
    return text.isprintable() and local_ids(text) == (text,)


#: Any text that a cell can contain.
texts = st.text(_letters, max_size=12).filter(_writable)
file_names = st.one_of(
    st.text("ab/ |.%207c-\u00e9", min_size=1, max_size=10), st.text(_letters, min_size=1, max_size=10)
).filter(lambda text: _is_name(text) and _writable(text))
locals_ = st.lists(texts.filter(_is_local), max_size=3, unique=True).map(tuple)
_digests = st.one_of(
    st.just(("", "")),
    st.sampled_from(list(HEX_DIGITS)).flatmap(
        lambda name: st.text("0123456789abcdef", min_size=HEX_DIGITS[name], max_size=HEX_DIGITS[name]).map(
            lambda value: (name, value)
        )
    ),
)
_moments = st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@st.composite
def rows(draw: st.DrawFn) -> ManifestEntry:
    """A row of any kind of manifest, with all or some of its cells filled."""
    algorithm, digest = draw(_digests)
    return ManifestEntry(
        draw(st.sampled_from(["http://h/a", "https://h:8443/a%20b?c=d#e", "s3://bucket/key", "file:///q/a"])),
        draw(file_names),
        algorithm,
        digest,
        draw(st.none() | st.integers(0, 10**18 - 1)),
        draw(_moments),
        draw(st.sampled_from(["", "text/plain"])),
        draw(st.sampled_from(["", "ark:/13030/m5abc"])),
        draw(locals_),
        draw(texts),
        draw(texts),
        draw(texts),
    )
