"""An API token is sent only to the server that it was configured with, and never unencrypted over the network."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headgate import BadValue, StoreUnavailable
from headgate.client.connection import ServiceConnection
from headgate.settings import SYSTEM_FILE, Settings, load
from headgate.store_opening import named_service, open_named_service, open_store, token_for

TOKEN = "hg_canary"
GOOD, EVIL = "https://headgate.example.org", "https://evil.example.net"


def settings(
    home: Path, work: str = "", user: str = "", flags: dict[str, str | None] | None = None, **more: str
) -> Settings:
    folder = home / ".config" / "headgate"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headgate.toml").write_text(user)
    (home / "headgate.toml").write_text(work)
    return load(flags, {"HOME": str(home), **more}, home)


def sent(found: Settings) -> str:
    return token_for(found, named_service(found))


def test_a_file_in_the_working_folder_does_not_redirect_a_token(tmp_path: Path) -> None:
    redirected = [
        settings(tmp_path, f'server = "{EVIL}"', f'server = "{GOOD}"\napi_token = "{TOKEN}"'),
        settings(tmp_path, f'server = "{EVIL}"', f'api_token = "{TOKEN}"'),
        settings(tmp_path, f'server = "{EVIL}"', HEADGATE_API_TOKEN=TOKEN),
        settings(tmp_path, f'url = "{EVIL}"', HEADGATE_API_TOKEN=TOKEN),
        *(
            settings(tmp_path, flags={"url": other}, HEADGATE_API_TOKEN=TOKEN, HEADGATE_URL=GOOD)
            for other in (
                f"{GOOD}:444",
                GOOD.replace("https", "http"),
                f"{GOOD}.evil.net",
                f"https://{GOOD[8:]}@evil.net",
            )
        ),
        settings(tmp_path, "", f'server = "{EVIL}"', HEADGATE_API_TOKEN=TOKEN),
        settings(tmp_path, flags={"url": EVIL}, HEADGATE_API_TOKEN=TOKEN),
        settings(tmp_path, flags={"url": EVIL}, HEADGATE_API_TOKEN=TOKEN, HEADGATE_SERVER=GOOD),
    ]
    for found in redirected:
        with pytest.raises(BadValue, match="not sent there"):
            open_named_service(found)


def test_a_second_store_in_the_file_does_not_get_it_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_API_TOKEN", TOKEN)
    with pytest.raises(BadValue, match="is a service"):
        open_store(EVIL)


def test_a_server_of_a_source_with_lower_precedence_does_not_override_the_url(tmp_path: Path) -> None:
    found = settings(tmp_path, f'server = "{EVIL}"', HEADGATE_API_TOKEN=TOKEN, HEADGATE_URL=GOOD)
    assert (named_service(found), sent(found)) == (GOOD, TOKEN)
    assert named_service(settings(tmp_path, f'server = "{EVIL}"', HEADGATE_URL="sqlite:////x.db")) == ""
    assert named_service(settings(tmp_path, f'server = "{GOOD}"\nurl = "sqlite:////x.db"')) == GOOD


def test_the_error_says_where_both_come_from_and_how_to_allow_it(tmp_path: Path) -> None:
    with pytest.raises(BadValue) as refused:
        sent(settings(tmp_path, f'server = "{EVIL}"', HEADGATE_API_TOKEN=TOKEN))
    for part in (EVIL, str(tmp_path / "headgate.toml"), "HEADGATE_API_TOKEN", "set HEADGATE_SERVER and"):
        assert part in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_a_token_beside_its_server_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_purpose = [
        settings(tmp_path, f'server = "{GOOD}"\napi_token = "{TOKEN}"'),
        settings(tmp_path, "", f'server = "{GOOD}"\napi_token = "{TOKEN}"'),
        settings(tmp_path, HEADGATE_SERVER=GOOD, HEADGATE_API_TOKEN=TOKEN),
        settings(tmp_path, HEADGATE_URL=f"{GOOD}:443/", HEADGATE_API_TOKEN=TOKEN),
        settings(tmp_path, flags={"url": GOOD, "api_token": TOKEN}),
        settings(tmp_path, flags={"url": GOOD}, HEADGATE_SERVER=GOOD, HEADGATE_API_TOKEN=TOKEN),
        settings(tmp_path, f'server = "{GOOD}"', HEADGATE_SERVER=GOOD, HEADGATE_API_TOKEN=TOKEN),
    ]
    assert [sent(each) for each in on_purpose] == [TOKEN] * len(on_purpose)
    assert sent(settings(tmp_path, f'server = "{EVIL}"')) == ""
    # Root's file may name the server for all users' tokens.
    system = tmp_path / "etc.toml"
    system.write_text(f'server = "{GOOD}"')
    monkeypatch.setattr("headgate.settings.SYSTEM_FILE", system)
    monkeypatch.setattr("headgate.store_opening.SYSTEM_FILE", system)
    assert sent(settings(tmp_path, HEADGATE_API_TOKEN=TOKEN)) == TOKEN
    assert str(SYSTEM_FILE) == "/etc/headgate/headgate.toml"


@pytest.mark.parametrize(
    ("server", "is_sent"),
    [
        ("http://127.0.0.1:8750", True),
        ("http://localhost:8750", True),
        ("http://[::1]:8750", True),
        (GOOD, True),
        ("http://headgate.example.org", False),
        ("http://10.0.0.7:8750", False),
        ("http://localhost.evil.net", False),
        ("http://127.0.0.1.evil.net", False),
        ("http://127.0.0.1@evil.net", False),
        ("http://[::ffff:10.0.0.7]", False),
    ],
)
def test_a_token_never_goes_over_plain_http_to_another_machine(tmp_path: Path, server: str, *, is_sent: bool) -> None:
    given: Any = {"HEADGATE_SERVER": server, "HEADGATE_API_TOKEN": TOKEN}
    if is_sent:
        assert sent(settings(tmp_path, **given)) == TOKEN
        return
    with pytest.raises(BadValue, match="plain http"):
        sent(settings(tmp_path, 'insecure_http = "yes"', **given))  # The author of that file does not decide it.
    assert sent(settings(tmp_path, HEADGATE_INSECURE_HTTP="yes", **given)) == TOKEN


def test_a_redirect_does_not_carry_the_token_elsewhere() -> None:
    """Whatever the status code and the method: no other server is contacted."""
    for code in (301, 302, 303, 307, 308):
        with listening() as (elsewhere, there), listening(code, elsewhere) as (here, asked):
            with closing(ServiceConnection(here, TOKEN)) as connection:
                with pytest.raises(StoreUnavailable):
                    connection.get("locks")
                with pytest.raises(StoreUnavailable):
                    connection.once("locks", body={})
            assert (asked, there) == ([f"Bearer {TOKEN}"] * 2, [])


@contextmanager
def listening(code: int = 200, target: str = "") -> Iterator[tuple[str, list[str]]]:
    """A server that redirects to the target. Returns its URL, and the tokens that it received."""
    tokens: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers.get("Authorization", ""))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(code)
            self.send_header("Location", f"{target}/v1/locks")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815 - the names that the base looks for

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", tokens
        finally:
            server.shutdown()
