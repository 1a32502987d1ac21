"""Fixtures of the ingest tests: a web server that can misbehave, and rules that allow connecting to it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.ingest.sources.fetch import Fetcher
from headgate.ingest.sources.guard import Rules
from tests.faults.conftest import processes, shared_zygote
from tests.ingest.origin import Origin, serving
from tests.ingest.site import Site, site

__all__ = ["processes", "shared_zygote"]


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving() as found:
        yield found


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Site]:
    """A complete repository on SQLite, for tests that do not depend on the store."""
    with site(tmp_path, f"sqlite:///{tmp_path / 'headgate.db'}") as found:
        yield found


@pytest.fixture
def rules(origin: Origin) -> Rules:
    """Loopback's first address, one port, and short time limits."""
    return Rules(
        schemes=frozenset({"http", "https", "file"}),
        ports=frozenset({origin.port}),
        private_networks=("127.0.0.1/32",),
        connect_seconds=5.0,
        answer_seconds=5.0,
        idle_seconds=5.0,
    )


@pytest.fixture
def fetcher(rules: Rules) -> Iterator[Fetcher]:
    with Fetcher(rules) as found:
        yield found


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=loopback", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    (folder / "both.pem").write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return folder / "both.pem"


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    """An S3 server on loopback, with a bucket `shelf`."""
    import httpx2
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    httpx2.put(f"http://{host}:{port}/shelf", trust_env=False).raise_for_status()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_environment(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment for access to buckets; returns the endpoint."""
    told = {
        "AWS_ENDPOINT": s3_endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    return s3_endpoint
