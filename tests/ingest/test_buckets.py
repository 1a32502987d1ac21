"""Payloads in a bucket: downloaded in pieces, resumed, and only from buckets that the profile names."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import obstore
import pytest
from obstore.store import S3Store

from headgate.core.errors import BadPayload, BadValue, ServiceUnavailable
from headgate.ingest.retries import Retries
from headgate.ingest.sources import buckets
from headgate.ingest.sources.download import DownloadOptions, Wanted, download
from headgate.ingest.sources.fetch import Fetcher
from headgate.ingest.sources.guard import Rules
from headgate.ingest.storage.s3 import open_bucket
from tests.certificates import Authority
from tests.ingest.site import Site, checkm, ended, only_job, running

Put = Callable[[str, bytes], str]


@pytest.fixture
def put(s3_environment: str) -> Put:
    """Puts an object into the bucket, and returns its URL."""

    assert s3_environment

    def put(key: str, content: bytes) -> str:
        obstore.put(S3Store("shelf"), unquote(key), content)
        return f"s3://shelf/{key}"

    return put


@pytest.fixture
def fetcher(s3_environment: str) -> Fetcher:
    assert s3_environment
    return Fetcher(Rules(schemes=frozenset({"s3"}), hosts=("shelf", "gone"), max_bytes=1000, idle_seconds=5))


def test_an_object_is_downloaded_in_pieces_and_resumed(
    put: Put, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "PIECE", 100)
    content = bytes(range(250)) * 3
    url = put("a%20b/c", content)
    head = fetcher.head(url)
    assert head.size == 750
    with fetcher.open(url, 333, head.validator) as body:
        assert (body.offset, b"".join(body.blocks)) == (333, content[333:])
    with fetcher.open(url, 333, '"of another content"') as body:
        assert (body.offset, b"".join(body.blocks)) == (0, content)


def test_an_object_that_changes_while_it_is_read_is_fetched_again(
    put: Put, fetcher: Fetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "PIECE", 100)
    url = put("changing", b"old" * 100)
    with fetcher.open(url) as body:
        pieces = iter(body.blocks)
        next(pieces)
        put("changing", b"new" * 100)
        with pytest.raises(ServiceUnavailable, match="it changed while it was being read"):
            next(pieces)
    told = {"sha256": hashlib.sha256(b"new" * 100).hexdigest()}
    found = download(fetcher, [Wanted(url, "x", 300, told)], tmp_path / "to", tmp_path / "parts")
    assert found.failed == ()
    assert (tmp_path / "to" / "x").read_bytes() == b"new" * 100


def test_a_failed_download_is_reported(put: Put, fetcher: Fetcher, tmp_path: Path) -> None:
    with pytest.raises(BadPayload, match="no such object"):
        fetcher.head("s3://shelf/nothing")
    with pytest.raises(BadPayload):
        fetcher.head("s3://gone/x")
    with pytest.raises(BadValue, match="not on the list"):
        fetcher.head("s3://other/x")
    with pytest.raises(BadPayload, match="at most 1,000 are allowed"):
        fetcher.read(put("large", bytes(1001)), 5000)
    url = put("empty", b"")
    options = DownloadOptions(retries=Retries(1))
    found = download(fetcher, [Wanted(url, "x", None, {})], tmp_path / "to", tmp_path / "parts", options=options)
    assert found.failed == ()
    assert found.fetched[0].size == 0


def test_an_unavailable_bucket_is_retried_later(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ServiceUnavailable):
        fetcher.head("s3://shelf/x")


def test_a_batch_from_a_bucket_ends_as_stored_objects(there: Site, put: Put) -> None:
    there.profile(sources__schemes=["s3"], sources__hosts=["shelf"])
    content = b"one\n" * 1000
    file = put("page.txt", content)
    row = f"{file} | sha-256 | {hashlib.sha256(content).hexdigest()} | {len(content)} | | page.txt"
    objects = put("1.checkm", checkm("mrt-ingest-manifest", [row]))
    batch = put("all.checkm", checkm("mrt-batch-manifest", [f"{objects} |  |  |  |  | 1.checkm |  | page"]))
    elsewhere = put("2.checkm", checkm("mrt-ingest-manifest", [row.replace("s3://shelf", "s3://secrets")]))
    with there.gate() as gate, running(gate):
        good, bad = (
            gate.queue.submit("demo", "ann", batch, type="batch-manifest"),
            gate.queue.submit("demo", "ann", elsewhere),
        )
        assert ended(gate, good).state == "completed"
        (found,) = gate.inventory.objects()
        assert "producer/page.txt" in [each.name for each in gate.inventory.files(found.ark, 1)]
        ended(gate, bad)
        assert "the host secrets is not one of the profile's hosts (shelf)" in only_job(gate, bad).message


THROUGH_NO_PROXY = """
import os, sys
from headgate.ingest.sources.fetch import Fetcher
from headgate.ingest.sources.guard import Rules
from headgate.ingest.storage.s3 import open_bucket
assert Fetcher(Rules(schemes=frozenset({"s3"}), hosts=("shelf",))).read(sys.argv[1], 1000) == b"a page"
os.environ["AWS_ENDPOINT"] = os.environ["AWS_ENDPOINT"].replace("127.0.0.1", "localhost")
assert open_bucket("s3://shelf/root").list_versions("ark:/99999/fk4x") == ()
"""


def test_neither_payloads_nor_the_storage_go_through_a_proxy_of_the_environment(put: Put) -> None:
    """In a separate process: a client may read the proxy settings only once."""
    url = put("page.txt", b"a page")
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "AWS_PROXY_URL")
        environment = {**os.environ, **dict.fromkeys(names, address), "NO_PROXY": "", "no_proxy": ""}
        done = subprocess.run(
            [sys.executable, "-c", THROUGH_NO_PROXY, url],
            check=False, env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        with pytest.raises(BlockingIOError):
            proxy.accept()


def test_options_of_the_client_come_from_the_environment(
    s3_environment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except proxies, and variables that would turn the check of certificates off."""
    assert s3_environment
    bundle = Authority(tmp_path).cert
    for name, value in (
        ("AWS_TIMEOUT", "7s"), ("AWS_CONNECT_TIMEOUT", "3s"), ("AWS_ALLOW_HTTP", "1"), ("AWS_USER_AGENT", "harbour"),
        ("AWS_CA_BUNDLE", str(bundle)), ("AWS_ALLOW_INVALID_CERTIFICATES", "true"), ("AWS_PROXY_URL", "http://x:1"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    found = dict(buckets.connect_bucket("shelf").client_options or {})
    assert found["root_certificate"] == bundle.read_bytes()
    assert (found["timeout"], found["connect_timeout"], found["user_agent"]) == ("7s", "3s", "harbour")
    assert "allow_invalid_certificates" not in found
    assert found["proxy_url"] == "http://127.0.0.1:9"
    assert open_bucket("s3://shelf/root").list_versions("ark:/99999/fk4x") == ()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("AWS_TIMEOUT", "soon", "soon"),
        ("AWS_CA_BUNDLE", "/nowhere", "No such file"),
        ("AWS_CA_BUNDLE", __file__, "PEM"),
    ],
)
def test_an_invalid_option_is_reported(
    s3_environment: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    assert s3_environment
    monkeypatch.setenv(name, value)
    with pytest.raises(BadValue, match=why):
        open_bucket("s3://shelf/root")


def test_a_bucket_with_a_certificate_of_a_private_authority_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("localhost", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.cert, signed.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Empty) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in (
            ("AWS_ENDPOINT", f"https://localhost:{server.server_port}"), ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "r"),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)
        try:
            monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.cert))
            with pytest.raises(FileNotFoundError):
                obstore.head(buckets.connect_bucket("shelf", retries={"max_retries": 0}), "page")
            monkeypatch.delenv("AWS_CA_BUNDLE")
            with pytest.raises(obstore.exceptions.GenericError):
                obstore.head(buckets.connect_bucket("shelf", retries={"max_retries": 0}), "page")
        finally:
            server.shutdown()


class _Empty(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nobody reads it."""
