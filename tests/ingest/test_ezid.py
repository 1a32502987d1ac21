"""EZID: its text protocol against a stand-in, and what happens to a name when an answer is lost."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from headgate import BadValue, ServiceRefused, ServiceUnavailable
from headgate.ingest.formats import ezid
from headgate.ingest.formats.ark import Ark, mint, parse
from headgate.ingest.formats.descriptions import Description
from headgate.ingest.formats.ezid import Ezid, EzidAnswer, EzidRequest, headers_of, record
from headgate.ingest.retries import Retries
from tests.ingest.ezid_server import PASSWORD, USER, EzidServer, ezid_server, send

SHOULDER = "ark:/99999/fk4"
OURS = mint(SHOULDER, 42)
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SAID = {"erc": "who: A\nwhat: 50% of: it\n", "_target": "https://h/x"}


@pytest.fixture
def server() -> Iterator[EzidServer]:
    with ezid_server() as running:
        yield running


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def client(server: EzidServer, pauses: list[float]) -> Ezid:
    return Ezid(server.url, headers_of(USER, PASSWORD), send, pauses.append, lambda: NOW)


def methods(server: EzidServer) -> list[str]:
    return [method for method, _, _ in server.seen]


def assert_doubled(pauses: list[float], count: int) -> None:
    """Each pause is about twice the one before, with a random part, so that two clients do not stay in step."""
    assert len(pauses) == count
    assert all(2.0**number / 2 <= pause <= 2.0**number for number, pause in enumerate(pauses, 1))


# ---------------------------------------------------------------- requests and answers


def test_the_text_of_a_registration(client: Ezid, server: EzidServer) -> None:
    assert client.register(OURS, SAID) == OURS
    assert server.seen == [
        ("PUT", f"/id/{OURS}?update_if_exists=yes", "erc: who: A%0Awhat: 50%25 of: it\n_target: https://h/x\n"),
    ]
    assert server.known == {str(OURS): {"erc": "who: A\nwhat: 50% of: it", "_target": "https://h/x"}}


def test_registering_again_changes_what_is_known(client: Ezid, server: EzidServer) -> None:
    client.register(OURS, SAID)
    client.register(OURS, {"_target": "https://h/new"})
    assert server.known == {str(OURS): {"erc": "who: A\nwhat: 50% of: it", "_target": "https://h/new"}}


def test_minting(client: Ezid, server: EzidServer) -> None:
    names = {client.mint(SHOULDER, SAID) for _ in range(3)}
    assert {str(name) for name in names} == set(server.known)
    assert server.seen[0] == (
        "POST",
        "/shoulder/ark:/99999/fk4",
        "erc: who: A%0Awhat: 50%25 of: it\n_target: https://h/x\n",
    )


def test_nothing_is_minted_for_an_object_that_has_a_name(client: Ezid, server: EzidServer) -> None:
    assert client.name(OURS, SHOULDER, SAID) == OURS
    assert (methods(server), server.minted) == (["PUT"], 0)
    assert client.name(None, SHOULDER, SAID) != OURS
    assert (methods(server), server.minted) == (["PUT", "POST"], 1)


def test_the_metadata_sent_to_ezid() -> None:
    told = record(Description("A", "B\nC", ""), OURS, ["l1", "l2"], context="ctx", target="t", owner="o")
    assert told == {
        "erc": f"who: A\nwhat: B C\nwhen: (:unas)\nwhere: {OURS}\nwhere: l1; l2\n",
        "mrt.creator": "ctx",
        "_target": "t",
        "_owner": "o",
    }
    assert record(Description(), None, []) == {"erc": "who: (:unas)\nwhat: (:unas)\nwhen: (:unas)\nwhere: (:unas)\n"}
    assert ezid.target_url("https://h/", parse("ark:/99999/fk4x")) == "https://h/m/ark%3A%2F99999%2Ffk4x"


def test_ezid_keeps_each_value_as_submitted(client: Ezid, server: EzidServer) -> None:
    """EZID decodes each value once; a value encoded twice stays encoded there."""
    said = Description("100% Ann: A & B", "50%25 of\r\n\tit %0A ünder", "2026: spring")
    target = ezid.target_url("https://h", OURS)
    client.register(OURS, record(said, OURS, ["loc%1", "a:b"], context="c: 1%", target=target, owner="o%41"))
    assert server.known[str(OURS)] == {
        "erc": f"who: 100% Ann: A & B\nwhat: 50%25 of it %0A ünder\nwhen: 2026: spring\nwhere: {OURS}\n"
        "where: loc%1; a:b",
        "mrt.creator": "c: 1%",
        "_target": target,
        "_owner": "o%41",
    }
    (_, _, body), *_ = server.seen
    assert "_target: https://h/m/ark%253A%252F99999%252F" in body, "encoded twice on the way, as Merritt's"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (201, b"success: ark:/99999/fk4rx9d523", ("ark:/99999/fk4rx9d523", True, True)),
        (200, b"success: ark:/99999/fk4rx9d523\n_target: x\n", ("ark:/99999/fk4rx9d523", True, True)),
        (201, b"success: doi:10.5072/FK2 | ark:/b5072/fk2", ("doi:10.5072/FK2", True, True)),
        (500, b"success: ark:/99999/fk4", ("ark:/99999/fk4", True, True)),
        (400, b"error: bad request - 50%25 wrong", ("bad request - 50% wrong", False, True)),
        (200, b"error: unauthorized", ("unauthorized", False, True)),
    ],
)
def test_the_first_line_decides(status: int, body: bytes, expected: tuple[str, bool, bool]) -> None:
    outcome = ezid.read(EzidAnswer(status, {}, body))
    assert (outcome.text, outcome.succeeded, outcome.understood) == expected


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff\xfe", b"ok", b"success", b"error: 50%", b": x", b"# success: x", b" x: y"]
)
def test_responses_that_are_not_from_ezid_are_recognised(body: bytes) -> None:
    outcome = ezid.read(EzidAnswer(200, {}, body))
    assert (outcome.succeeded, outcome.understood) == (False, False)


def test_the_password_is_not_shown() -> None:
    request = ezid.registration("https://h", OURS, {}, headers_of(USER, PASSWORD))
    assert request.headers["Authorization"].startswith("Basic ")
    assert "Basic" not in repr(request)
    assert PASSWORD not in repr(request)


# ---------------------------------------------------------------- refusals


def test_a_refusal_by_ezid_is_reported_and_not_retried(client: Ezid, server: EzidServer, pauses: list[float]) -> None:
    with pytest.raises(ServiceRefused, match="EZID refused the request: forbidden"):
        client.register(parse("ark:/13030/m5abc"), SAID)
    with pytest.raises(ServiceRefused, match="forbidden"):
        client.mint("ark:/13030/m5", SAID)
    server.faults = ["error: bad request - element '_target': invalid url"]
    with pytest.raises(ServiceRefused, match="bad request - element '_target': invalid url"):
        client.register(OURS, SAID)
    assert (len(server.seen), pauses, server.known) == (3, [], {})


def test_a_wrong_password_is_reported(server: EzidServer, pauses: list[float]) -> None:
    wrong = Ezid(server.url, headers_of(USER, "guess"), send, pauses.append, lambda: NOW)
    with pytest.raises(ServiceRefused, match="unauthorized"):
        wrong.mint(SHOULDER, SAID)
    assert server.minted == 0


def test_a_name_that_was_not_requested_is_refused(client: Ezid, server: EzidServer) -> None:
    server.faults = ["success: ark:/99999/fk4other", "success: nothing"]
    with pytest.raises(ServiceRefused, match=f"{OURS} was requested, but it answered with ark:/99999/fk4other"):
        client.register(OURS, SAID)
    with pytest.raises(ServiceRefused, match="an invalid name"):
        client.register(OURS, SAID)


def test_an_invalid_shoulder_is_not_sent(client: Ezid, server: EzidServer) -> None:
    with pytest.raises(BadValue, match="ARK"):
        client.mint("fk4", SAID)
    assert server.seen == []


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", ["busy", "page", "error", "lost", "deaf"])
def test_a_registration_is_retried_until_it_is_answered(
    fault: str, client: Ezid, server: EzidServer, pauses: list[float]
) -> None:
    server.faults = [fault, fault, fault]
    assert client.register(OURS, SAID) == OURS
    assert methods(server) == ["PUT"] * 4
    assert_doubled(pauses, 3)
    assert list(server.known) == [str(OURS)]


@pytest.mark.parametrize("fault", ["busy", "page", "error", "lost", "deaf"])
def test_after_the_last_attempt_the_reason_is_reported(
    fault: str, client: Ezid, server: EzidServer, pauses: list[float]
) -> None:
    server.faults = [fault] * 9
    with pytest.raises(ServiceUnavailable, match=r"EZID: .*\(PUT, try 4\)"):
        client.register(OURS, SAID)
    assert len(server.seen) == 4
    assert_doubled(pauses, 3)


def test_minting_is_retried_only_when_ezid_did_nothing(client: Ezid, server: EzidServer, pauses: list[float]) -> None:
    server.faults = ["busy", "busy"]
    client.mint(SHOULDER, SAID)
    assert (server.minted, len(server.seen)) == (1, 3)
    assert_doubled(pauses, 2)


@pytest.mark.parametrize("fault", ["page", "error", "lost", "deaf"])
def test_minting_is_never_retried_when_its_outcome_is_unknown(
    fault: str, client: Ezid, server: EzidServer, pauses: list[float]
) -> None:
    server.faults = [fault]
    with pytest.raises(ServiceUnavailable, match="POST, try 1"):
        client.mint(SHOULDER, SAID)
    assert (len(server.seen), pauses, server.minted) == (1, [], 1 if fault == "lost" else 0)


def test_our_own_name_is_registered_once_despite_a_lost_answer(client: Ezid, server: EzidServer) -> None:
    server.faults = ["lost"] * 4
    with pytest.raises(ServiceUnavailable):
        client.register(OURS, SAID)
    assert client.register(mint(SHOULDER, 42), SAID) == OURS
    assert list(server.known) == [str(OURS)]


def test_no_server_is_unavailable(pauses: list[float]) -> None:
    with ezid_server() as server:
        url = server.url
    gone = Ezid(url, {}, send, pauses.append, lambda: NOW, Retries(tries=2))
    with pytest.raises(ServiceUnavailable, match="try 2"):
        gone.register(OURS, SAID)


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        ("7", 7.0),
        ("0", None),
        ("Sun, 15 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 15 Nov 2026 11:00:00 GMT", None),
        ("soon", None),
    ],
)
def test_the_pause_is_what_the_server_asks_for(
    asked: str, waited: float | None, client: Ezid, server: EzidServer, pauses: list[float]
) -> None:
    server.faults, server.retry_after = ["busy"], asked
    client.register(OURS, SAID)
    if waited is None:
        assert_doubled(pauses, 1)
    else:
        assert pauses == [waited]


def test_a_pause_of_an_hour_is_not_waited_for(client: Ezid, server: EzidServer, pauses: list[float]) -> None:
    server.faults, server.retry_after = ["busy"], "3600"
    with pytest.raises(ServiceUnavailable, match="concurrency limit exceeded"):
        client.register(OURS, SAID)
    assert pauses == []


def test_an_unavailable_transport_does_not_crash(pauses: list[float]) -> None:
    def broken(request: EzidRequest) -> EzidAnswer:
        raise ServiceUnavailable("https://h", "no route")

    with pytest.raises(ServiceUnavailable, match="no route"):
        Ezid("https://h", {}, broken, pauses.append, lambda: NOW).register(OURS, SAID)
    assert len(pauses) == 3


def test_the_stand_in_refuses_what_ezid_refuses(server: EzidServer) -> None:
    """Otherwise the tests above would prove nothing."""
    headers = headers_of(USER, PASSWORD)

    def said(method: str, path: str, body: bytes = b"", more: dict[str, str] | None = None) -> tuple[int, bytes]:
        answer = send(EzidRequest(method, server.url + path, {**headers, **(more or {})}, body))
        return answer.status, answer.body

    name = "ark:/99999/fk4abc"
    assert said("PUT", f"/id/{name}") == (201, f"success: {name}".encode())
    assert said("PUT", f"/id/{name}") == (400, b"error: bad request - identifier already exists")
    assert said("PUT", f"/id/{name}?update_if_exists=yes")[0] == 201
    assert said("PUT", f"/id/{name}?update=yes")[0] == 400
    assert said("POST", f"/id/{name}")[0] == 200
    assert said("POST", "/id/ark:/99999/fk4none") == (400, b"error: bad request - no such identifier")
    assert said("PUT", "/shoulder/ark:/99999/fk4") == (405, b"error: method not allowed")
    assert said("POST", "/shoulder/ark:/99999/fk4", b"a: b\na: c\n")[0] == 400
    assert said("POST", "/shoulder/ark:/99999/fk4", b"", {"Content-Type": "application/json"})[0] == 400
    assert said("POST", "/shoulder/ark:/99999/fk4", b"", {"Authorization": ""})[0] == 401


def test_an_ark_is_sent_as_it_is_written() -> None:
    request = ezid.registration("https://h/", Ark("99999", "fk4a%20b"), {}, {})
    assert request.url == "https://h/id/ark:/99999/fk4a%2520b?update_if_exists=yes"
