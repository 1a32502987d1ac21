"""The redactor hides secrets in a text, and changes nothing else."""

import json
import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import BadValue, ServiceUnavailable
from headgate.core.values import redaction
from headgate.core.values.redaction import redact, redact_all, remember
from headgate.telemetry import JsonLines, event, logger

S = "c4n4ry-Zq7-VmFsdWU"
TOKEN = f"hg_{'a1' * 6}_{'Ab-_' * 10}abc"
HIDDEN = [
    f"https://me:{S}@h.example/a.zip: no answer",
    f"https://me:{S}@b@h.example/a.zip",
    f"https://{S}@h.example/a",
    f"postgresql://u:{S}@h/d does not answer",
    f"https://b.s3.amazonaws.com/k?X-Amz-Credential={S}%2F20261116&X-Amz-Signature={S}&x=1 answers 403",
    f"https://b.s3.amazonaws.com/k?x-amz-security-token={S}",
    f"https://a.blob.core.windows.net/c/b?sv=2026&sig={S}%3D",
    f"https://storage.googleapis.com/b/k?X-Goog-Signature={S}",
    f"https://d.cloudfront.net/k?Policy=x&Signature={S}&Key-Pair-Id=y",
    f"https://h.example/f?token={S}",
    f"https://h.example/f?access_token={S}#top",
    f"https://h.example/f?a=1&api_key={S}&b=2",
    f"https://h.example/f?key={S}",
    f"https://proxy.example/?url=https%3A%2F%2Fh%2Ff%3Fsig%3D{S}%26x%3D1",
    f"s3://bucket/key?password={S}",
    f"zookeeper://u:{S}@a:1,b:2/chroot",
    f"login failed: password={S}",
    f"client_secret = {S}, again",
    f"access_token={S}",
    f"Authorization: Bearer {S}",
    f"bearer {S}",
    f"payload 'https://h.example/?sig={S}' may not be fetched",
    f'login failed: password="{S} {S}"',
    f"host=db password='{S} {S}' user=x",
    f'the answer was {{"user": "ann", "password": "{S}", "n": 1}}',
    f"{{'access_token': '{S}', 'n': 1}}",
    json.dumps({"body": json.dumps({"client_secret": f"{S} {S}"})}),
    f'{{"api_key":"{S}"}}',
    f"said='no' passphrase=\"{S} without an end",
    f"Cookie: a=1; hg={S}",
    f"Set-Cookie: hg={S}; Path=/",
    f"X-Api-Key: {S}",
    f"X-Auth-Token: {S}",
    f"-----BEGIN EC PRIVATE KEY-----\n{S.replace('-', '')}\n{S.replace('-', '')}\n-----END EC PRIVATE KEY-----",
    TOKEN,
    f"hgk_{'Ab-_' * 10}abc",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "hgc_Vn2cyy0Q70JkA58enAH8nExIWvbXNXrip565p7brcl4",
]
SHOWN = [
    "https://h.example:8080/a/b?page=2&sort=name#top",
    "https://h.example/keys?x=1",
    "the lock has token=17",
    "postgresql://me@host/db",
    "zookeeper://a:1,b:2/chroot",
    "file:///srv/a@b/c:d",
    "mail ann@example.org: 550 no such person",
    "its token is stale; release it with its id and token",
    "lock list --resource data:raw/1",
    "wrong password: ask ann for another, or the secret: nobody knows it",
    '{"token": "17", "secrets": 3, "secret_jobs": ["align"], "password": null, "title": "Her secret"}',
    "the cookie: baked at 12:30, x-axis: 3",
    "password='' and token=\"17\"",
    "a basic information sheet, 12:30",
    "",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_a_secret_is_hidden_and_hiding_it_again_changes_nothing(text: str) -> None:
    found = redact(text)
    assert S not in found
    assert "***" in found
    assert TOKEN[16:] not in found
    assert S.replace("-", "") not in found
    assert redact(found) == found


@pytest.mark.parametrize("text", SHOWN)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


def test_the_public_part_of_an_api_token_stays_and_so_does_the_address() -> None:
    assert redact(TOKEN) == f"hg_{'a1' * 6}_***"
    assert redact(f"https://me:{S}@h/k?X-Amz-Signature={S}&x=1") == "https://me:***@h/k?X-Amz-Signature=***&x=1"


@given(st.text(max_size=200))
def test_redacting_any_text_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


def test_a_long_text_takes_time_in_proportion_to_its_length() -> None:
    parts = (
        "://:",
        "?token",
        "a@",
        "password =",
        "Authorization: ",
        "%3Fsig%3D",
        "https://a:",
        "bearer ",
        "a-",
        "?a=b",
        "password='",
        '"secret": "',
        "cookie:a=",
        "x-",
        "-----BEGIN PRIVATE KEY-----",
    )

    def seconds(count: int) -> float:
        began = time.process_time()
        for part in parts:
            redact("x=" + part * count)
        return time.process_time() - began

    assert seconds(16_000) < 16 * max(seconds(2_000), 0.02)


def test_known_values_are_hidden_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", [])
    remember(["short", "pa ss/wort", "two\nlines of a key"])
    assert redact("short: pa ss/wort or pa%20ss%2Fwort, lines of a key") == "short: *** or ***, ***"
    assert redact_all({"a": ["pa ss/wort", 1, ("pa ss/wort", None)]}) == {"a": ["***", 1, ("***", None)]}


def test_errors_and_log_lines_carry_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    error = BadValue("payload", f"https://h.example/{'x' * 60}?sig={S}{S}", "may not be fetched")
    away = ServiceUnavailable(f"https://me:{S}@h", f"GET https://h/?token={S} timed out")
    assert S[-9:] not in f"{error} {away}"
    with caplog.at_level(logging.INFO, "headgate"):
        event("fetch.failed", url=f"https://h/?sig={S}", error=away, parts=[f"https://a:{S}@h"], password=S, count=3)
    logger.info("fetch of %s", f"https://h/?sig={S}")
    lines = [JsonLines().format(each) for each in caplog.records]
    assert S not in "".join(lines)
    assert json.loads(lines[0])["count"] == 3
