"""The guarded client: which addresses it connects to, which it refuses, and how much it accepts."""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from ipaddress import ip_address
from pathlib import Path

import pytest

from headgate.core.errors import BadPayload, BadValue, HeadgateError, ServiceUnavailable, WorkStopped
from headgate.core.values.redaction import shown
from headgate.ingest.sources.fetch import Fetcher, ask_sizes
from headgate.ingest.sources.guard import NOT_PUBLIC, Rules, why_not_address
from tests.ingest import origin as acts
from tests.ingest.origin import Origin, serving

PRIVATE = [
    "http://127.0.0.1{port}/",
    "http://localhost{port}/",
    "http://2130706433{port}/",
    "http://0x7f.1{port}/",
    "http://[::1]{port}/",
    "http://[::ffff:127.0.0.1]{port}/",
    "http://169.254.169.254{port}/latest/meta-data/",
    "http://10.0.0.1{port}/",
    "http://0.0.0.0{port}/",
    "http://100.64.0.1{port}/",
    "http://[fd00::1]{port}/",
    "http://[64:ff9b::7f00:1]{port}/",
    "http://[2002:7f00:1::]{port}/",
    "http://[fe80::1%25lo]{port}/",
]


@pytest.mark.parametrize("form", PRIVATE)
def test_no_spelling_of_an_address_that_is_not_public_is_connected_to(form: str, origin: Origin) -> None:
    rules = Rules(schemes=frozenset({"http"}), ports=frozenset({origin.port}))
    with Fetcher(rules) as fetcher, pytest.raises(BadValue):
        fetcher.read(form.format(port=f":{origin.port}"), 100)
    assert origin.seen == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.org/a", "scheme"),
        ("gopher://127.0.0.1/", "scheme"),
        ("http://127.0.0.1:22/", "port"),
        ("http://user:secret@127.0.0.1/", "user name"),
        ("http:///nothing", "host"),
        ("http://127.0.0.1:99999/", "cannot be read"),
        ("file://elsewhere/etc/passwd", "another machine"),
    ],
)
def test_an_address_that_the_rules_do_not_allow_is_refused_by_name(fetcher: Fetcher, url: str, why: str) -> None:
    with pytest.raises(BadValue, match=why) as caught:
        fetcher.read(url, 100)
    assert "secret" not in str(caught.value)


def test_only_listed_hosts_are_contacted(origin: Origin, rules: Rules) -> None:
    origin.add("/a", b"here")
    elsewhere = replace(rules, hosts=("*.example.org", "data.example.net"))
    with Fetcher(elsewhere) as fetcher, pytest.raises(BadValue, match="list of allowed hosts"):
        fetcher.read(origin.url("/a"), 100)
    with Fetcher(replace(rules, hosts=("127.0.0.1",))) as fetcher:
        assert fetcher.read(origin.url("/a"), 100) == b"here"


#: One address of each special-purpose network in IANA's registries, past or present, written again here.
SPECIAL = """
0.0.0.1 10.0.0.1 100.64.0.1 127.0.0.1 169.254.0.1 172.16.0.1 172.31.255.254 192.0.0.1 192.0.2.1 192.88.99.1
192.168.0.1 198.18.0.1 198.19.255.254 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.254 240.0.0.1 255.255.255.255
:: ::1 ::7f00:1 ::ffff:8.8.8.8 64:ff9b::808:808 64:ff9b:1::1 100::1 2001::1 2001:2::1 2001:10::1 2001:20::1
2001:db8::1 2002:808:808:: 3fff::1 5f00::1 fc00::1 fd00::1 fe80::1 fec0::1 ff02::1
"""


def test_no_network_of_a_special_purpose_is_public() -> None:
    addresses = [ip_address(each) for each in SPECIAL.split()]
    assert [each for each in addresses if not why_not_address(str(each), Rules())] == []
    # Python's own table differs from version to version: ours has each of its networks, and no more.
    ours = {network for network in NOT_PUBLIC for each in addresses if each in network}
    assert ours == set(NOT_PUBLIC)
    assert [each for each in addresses if not any(each in network for network in NOT_PUBLIC)] == []
    assert why_not_address("93.184.216.34", Rules()) == ""
    assert why_not_address("2606:2800:220:1:248:1893:25c8:1946", Rules()) == ""


def test_a_name_that_changes_its_address_is_checked_at_every_connection(rules: Rules, origin: Origin) -> None:
    """The second lookup would return 127.0.0.2; the connection goes to the address that was checked."""
    answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "127.0.0.2"]]
    asked: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    origin.always["/a"] = lambda handler: handler.answer(200, b"here", {"Connection": "close"})
    with Fetcher(rules, resolve) as fetcher:
        assert fetcher.read(origin.url("/a", "name.example"), 100) == b"here"
        assert asked == ["name.example"]
        for _ in range(2):
            with pytest.raises(BadValue, match=r"127\.0\.0\.2 is not a public address"):
                fetcher.read(origin.url("/a", "name.example"), 100)
    assert len(origin.seen) == 1


def test_proxies_of_the_environment_are_not_used(
    fetcher: Fetcher, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    url = origin.add("/a", b"here")
    with Fetcher(fetcher.rules) as fresh:
        assert fresh.read(url, 100) == b"here"


def test_a_name_without_an_address_may_have_one_later(fetcher: Fetcher, origin: Origin) -> None:
    with pytest.raises(ServiceUnavailable, match="cannot be resolved"):
        fetcher.read(origin.url("/a", "nothing.invalid"), 100)


# ---------------------------------------------------------------- redirects


def test_redirects_are_not_followed_unless_the_rules_say_so(fetcher: Fetcher, origin: Origin) -> None:
    origin.add("/target", b"here")
    url = origin.add("/a", b"", acts.redirect("/target"))
    with pytest.raises(BadPayload, match="none are followed"):
        fetcher.read(url, 100)
    assert origin.asked("/target") == []


def test_allowed_redirects_are_followed_and_counted(origin: Origin, rules: Rules) -> None:
    origin.add("/target", b"here")
    origin.always |= {"/1": acts.redirect("/2"), "/2": acts.redirect("/target"), "/ring": acts.redirect("/ring")}
    with Fetcher(replace(rules, redirects=2)) as fetcher:
        assert fetcher.read(origin.url("/1"), 100) == b"here"
        with pytest.raises(BadPayload, match="at most 2 are followed"):
            fetcher.read(origin.url("/ring"), 100)


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2:{port}/x", "http://[::1]:{port}/x", "http://127.0.0.1:22/", "file:///etc/passwd"]
)
def test_a_redirect_is_checked_like_the_first_address(origin: Origin, rules: Rules, target: str) -> None:
    url = origin.add("/a", b"", acts.redirect(target.format(port=origin.port)))
    following = replace(rules, schemes=frozenset({"http"}), redirects=5)
    with Fetcher(following) as fetcher, pytest.raises((BadValue, BadPayload)):
        fetcher.read(url, 100)
    assert len(origin.seen) == 1


@pytest.mark.parametrize("target", ["file://localhost/etc/passwd", "s3://bucket/key", "ftp://h/x"])
def test_a_redirect_stays_on_the_web(origin: Origin, rules: Rules, target: str) -> None:
    origin.add("/a", b"", acts.redirect(target))
    allowed = replace(rules, redirects=1, schemes=frozenset({"http", "file", "s3"}), roots=(Path("/etc"),))
    with Fetcher(allowed) as fetcher, pytest.raises(BadPayload, match="not a web address"):
        fetcher.read(origin.url("/a"), 100)


def test_a_password_is_not_carried_to_another_server(origin: Origin, rules: Rules) -> None:
    with serving() as other:
        other.add("/x", b"there")
        url = origin.add("/a", b"", acts.redirect(other.url("/x")))
        with Fetcher(replace(rules, ports=frozenset({origin.port, other.port}), redirects=1)) as fetcher:
            fetcher.client.headers["Authorization"] = "Bearer secret"
            assert fetcher.read(url, 100) == b"there"
        assert "Authorization" in origin.asked("/a")[0].headers
        assert "Authorization" not in other.asked("/x")[0].headers


# ---------------------------------------------------------------- encrypted


@pytest.fixture
def secure(certificate: Path) -> Iterator[Origin]:
    with serving(certificate=certificate) as found:
        yield found


def test_an_untrusted_certificate_is_refused(secure: Origin, rules: Rules) -> None:
    url = secure.add("/a", b"here")
    there = replace(rules, ports=frozenset({secure.port}))
    with Fetcher(there) as fetcher, pytest.raises(ServiceUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        fetcher.read(url, 100)
    assert secure.seen == []


def test_an_encrypted_transfer_is_bounded_like_a_plain_one(
    secure: Origin, rules: Rules, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = secure.add("/a", bytes(300_000))
    secure.always["/drip"] = acts.drip()
    with Fetcher(replace(rules, ports=frozenset({secure.port}), total_seconds=1.0)) as fetcher:
        assert fetcher.read(url, 10**9) == bytes(300_000)
        with pytest.raises(ServiceUnavailable, match="too long"):
            fetcher.read(secure.url("/drip"), 10**9)


def test_a_redirect_does_not_leave_encryption(
    secure: Origin, origin: Origin, rules: Rules, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = secure.add("/a", b"", acts.redirect(origin.add("/plain", b"plain")))
    both = replace(rules, ports=frozenset({secure.port, origin.port}), redirects=5)
    with Fetcher(both) as fetcher, pytest.raises(BadPayload, match="from https to http"):
        fetcher.read(url, 100)
    assert origin.seen == []


# ---------------------------------------------------------------- how much, how long


def test_a_body_is_cut_off_at_the_limit_with_or_without_its_length(origin: Origin, rules: Rules) -> None:
    origin.always["/endless"] = acts.endless()
    said = origin.add("/said", bytes(5000))
    with Fetcher(replace(rules, max_bytes=4000)) as fetcher:
        with pytest.raises(BadPayload, match="at most 4,000"):
            fetcher.read(said, 10**9)
        with pytest.raises(BadPayload, match="download was stopped"):
            fetcher.read(origin.url("/endless"), 10**9)


@pytest.mark.parametrize(("seconds", "names"), [(3600, True), (59, False), (-3600, False)])
def test_a_modification_time_identifies_a_file_once_it_is_past(
    fetcher: Fetcher, origin: Origin, seconds: float, *, names: bool
) -> None:
    """A file may change twice within one second: parts of two files would be taken for one."""
    changed = formatdate(time.time() - seconds, usegmt=True)
    url = origin.add("/a", b"", acts.status(200, Last_Modified=changed))
    assert fetcher.head(url).validator == (changed if names else "")


def test_an_unrequested_content_encoding_is_refused(fetcher: Fetcher, origin: Origin) -> None:
    bomb = gzip.compress(bytes(1 << 20))
    url = origin.add("/bomb", b"", lambda handler: handler.answer(200, bomb, {"Content-Encoding": "gzip"}))
    with pytest.raises(BadPayload, match="encoding gzip"):
        fetcher.read(url, 10**9)
    assert origin.seen[0].headers["Accept-Encoding"] == "identity"


def test_a_body_shorter_than_promised_is_not_a_file(fetcher: Fetcher, origin: Origin) -> None:
    url = origin.add("/a", b"", acts.promise(100, b"x" * 60))
    with pytest.raises(ServiceUnavailable):
        fetcher.read(url, 1000)


def test_a_slow_transfer_is_ended_by_the_minimum_rate(origin: Origin, rules: Rules) -> None:
    origin.always["/drip"] = acts.drip()
    hasty = replace(rules, slow_seconds=0.2, min_rate=10_000)
    with Fetcher(hasty) as fetcher, pytest.raises(ServiceUnavailable, match="too slow"):
        fetcher.read(origin.url("/drip"), 10**9)


def test_a_slow_transfer_is_ended_by_the_total_time_limit(origin: Origin, rules: Rules) -> None:
    origin.always["/drip"] = acts.drip()
    with Fetcher(replace(rules, total_seconds=0.3)) as fetcher, pytest.raises(ServiceUnavailable, match="too long"):
        fetcher.read(origin.url("/drip"), 10**9)


def test_slow_headers_are_ended_by_the_time_limit_for_an_answer(origin: Origin, rules: Rules) -> None:
    origin.always["/headers"] = acts.drip_headers()
    with Fetcher(replace(rules, answer_seconds=0.3)) as fetcher, pytest.raises(ServiceUnavailable, match="too long"):
        fetcher.read(origin.url("/headers"), 10**9)


def test_silence_is_ended_by_the_read_timeout(origin: Origin, rules: Rules) -> None:
    url = origin.add("/a", bytes(100), acts.silence)
    with (
        Fetcher(replace(rules, idle_seconds=0.3)) as fetcher,
        pytest.raises(ServiceUnavailable, match="no data arrived"),
    ):
        fetcher.read(url, 10**9)


def test_a_transfer_that_waits_for_bytes_stops_on_request(fetcher: Fetcher, origin: Origin) -> None:
    url = origin.add("/a", bytes(100), acts.silence)
    told = threading.Event()
    with fetcher.open(url, stop=told.is_set) as body:
        assert next(body.blocks) == bytes(50)
        told.set()
        with pytest.raises(WorkStopped):
            next(body.blocks)


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_temporary_http_errors_are_recognised(fetcher: Fetcher, origin: Origin, code: int) -> None:
    url = origin.add("/a", b"", acts.status(code, Retry_After="7"))
    with pytest.raises(ServiceUnavailable, match=str(code)) as caught:
        fetcher.read(url, 100)
    assert caught.value.retry_after == 7


@pytest.mark.parametrize("code", [401, 403, 404, 410, 204, 304])
def test_permanent_http_errors_are_recognised(fetcher: Fetcher, origin: Origin, code: int) -> None:
    url = origin.add("/a", b"", acts.status(code))
    with pytest.raises(BadPayload, match=str(code)):
        fetcher.read(url, 100)


# ---------------------------------------------------------------- sizes


def test_sizes_are_requested_in_parallel_and_never_fail(fetcher: Fetcher, origin: Origin, tmp_path: Path) -> None:
    origin.always["/unknown"] = lambda handler: handler.head(200, None, {"Connection": "close"})
    origin.always["/busy"] = acts.status(503)
    origin.add("/get-only", b"12345678", acts.status(405))
    urls = [origin.add("/a", bytes(1234)), origin.url("/none"), origin.url("/unknown"), origin.url("/busy")]
    urls += [origin.url("/get-only"), "http://10.0.0.1/", "nonsense", f"file://{tmp_path}/none"]
    assert ask_sizes(fetcher, urls) == [1234, None, None, None, 8, None, None, None]
    assert {each.method for each in origin.asked("/a")} == {"HEAD"}


# ---------------------------------------------------------------- files


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    (tmp_path / "shelf" / "inner").mkdir(parents=True)
    (tmp_path / "shelf" / "inner" / "a b.txt").write_bytes(b"on the shelf")
    (tmp_path / "outside.txt").write_bytes(b"secret")
    (tmp_path / "shelf" / "link.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "shelf" / "linked").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "shelf" / "pipe")
    return tmp_path / "shelf"


@pytest.fixture
def shelf_fetcher(rules: Rules, shelf: Path) -> Iterator[Fetcher]:
    with Fetcher(replace(rules, roots=(shelf,))) as found:
        yield found


def test_files_below_a_named_folder_are_read(shelf_fetcher: Fetcher, shelf: Path) -> None:
    url = f"file://{shelf}/inner/a%20b.txt"
    assert shelf_fetcher.read(url, 100) == b"on the shelf"
    head = shelf_fetcher.head(url)
    assert head.size == 12
    with shelf_fetcher.open(url, 7, head.validator) as body:
        assert (body.offset, b"".join(body.blocks)) == (7, b"shelf")
    with shelf_fetcher.open(url, 7, "another") as body:
        assert (body.offset, b"".join(body.blocks)) == (0, b"on the shelf")


@pytest.mark.parametrize(
    "path",
    ["/../outside.txt", "/%2e%2e/outside.txt", "/link.txt", "/linked/outside.txt", "/pipe", "/inner", "", "/x%00"],
)
def test_nothing_else_is_read(shelf_fetcher: Fetcher, shelf: Path, path: str) -> None:
    with pytest.raises(HeadgateError):
        shelf_fetcher.read(f"file://{shelf}{path}", 100)


def test_without_a_named_folder_no_file_is_read(fetcher: Fetcher, shelf: Path) -> None:
    with pytest.raises(BadValue, match="folder"):
        fetcher.read(f"file://{shelf}/inner/a%20b.txt", 100)


def test_addresses_are_shown_without_their_secrets() -> None:
    assert shown("https://me:pass@h.example/a?X-Amz-Signature=abc") == "https://h.example/a?…"
