"""Callbacks: signed as the Standard Webhooks require, retried under the same id, and never sent past the guard."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading

import pytest

from headgate.core.errors import BadValue, ServiceRefused, ServiceUnavailable, WorkStopped
from headgate.ingest.notices.callback import Callback, deliver, signed_headers
from headgate.ingest.retries import Retries
from headgate.ingest.sources.fetch import Fetcher
from tests.ingest import origin as acts
from tests.ingest.origin import Origin

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = json.dumps({"job:jobState": {"job:jobStatus": "COMPLETED"}}).encode()
HURRY = Retries(3, 0.001, 0.002)


def test_the_signature_is_that_of_the_published_example() -> None:
    callback = Callback("https://h/", "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', SECRET)
    headers = signed_headers(callback, 1614265330)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_callback_arrives_once_signed_and_whole(fetcher: Fetcher, origin: Origin) -> None:
    deliver(fetcher, Callback(origin.add("/done", b""), "cb-jid1", BODY, SECRET), HURRY, clock=lambda: 1_800_000_000.9)
    (seen,) = origin.asked("/done")
    assert (seen.method, seen.body, seen.headers["Content-Type"]) == ("POST", BODY, "application/json")
    assert (seen.headers["webhook-id"], seen.headers["webhook-timestamp"]) == ("cb-jid1", "1800000000")
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = hmac.new(key, b"cb-jid1.1800000000." + BODY, hashlib.sha256).digest()
    assert seen.headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"


def test_it_is_sent_again_under_the_same_id_until_it_is_accepted(fetcher: Fetcher, origin: Origin) -> None:
    url = origin.add("/done", b"", acts.status(503), acts.reset)
    deliver(fetcher, Callback(url, "cb-jid1", BODY), HURRY)
    seen = origin.asked("/done")
    assert [each.headers["webhook-id"] for each in seen] == ["cb-jid1"] * 3
    assert all("webhook-signature" not in each.headers for each in seen)


def test_an_encoded_answer_is_an_answer(fetcher: Fetcher, origin: Origin) -> None:
    """A receiver has accepted it, whatever its answer contains; the body of the answer is not decoded."""
    url = origin.add("/done", b"", acts.status(200, Content_Encoding="gzip"))
    deliver(fetcher, Callback(url, "cb-jid1", BODY), HURRY)
    assert len(origin.seen) == 1


def test_tries_are_bounded(fetcher: Fetcher, origin: Origin) -> None:
    origin.always["/done"] = acts.status(500)
    with pytest.raises(ServiceUnavailable, match="500"):
        deliver(fetcher, Callback(origin.url("/done"), "cb", BODY), HURRY)
    assert len(origin.seen) == 3


@pytest.mark.parametrize("act", [acts.status(400), acts.status(410), acts.redirect("http://10.0.0.1/")])
def test_a_permanent_refusal_is_not_retried(fetcher: Fetcher, origin: Origin, act: acts.Act) -> None:
    origin.always["/done"] = act
    with pytest.raises(ServiceRefused):
        deliver(fetcher, Callback(origin.url("/done"), "cb", BODY), HURRY)
    assert len(origin.seen) == 1


def test_a_callback_does_not_go_where_a_fetch_may_not(fetcher: Fetcher, origin: Origin) -> None:
    with pytest.raises(BadValue, match="public"):
        deliver(fetcher, Callback(origin.url("/done", "127.0.0.2"), "cb", BODY), HURRY)
    assert origin.seen == []


@pytest.mark.parametrize("secret", ["whsec_MTIz", "whsec_short", "whsec_!!!", "whsec_" + "A" * 200])
def test_an_invalid_secret_is_refused_and_not_shown(fetcher: Fetcher, origin: Origin, secret: str) -> None:
    with pytest.raises(BadValue, match="callback secret") as caught:
        deliver(fetcher, Callback(origin.url("/done"), "cb", BODY, secret), HURRY)
    assert secret not in str(caught.value)


def test_waiting_for_the_next_attempt_stops_on_request(fetcher: Fetcher, origin: Origin) -> None:
    told = threading.Event()

    def busy(handler: acts.Handler) -> None:
        told.set()
        handler.answer(503)

    origin.always["/done"] = busy
    with pytest.raises(WorkStopped):
        deliver(fetcher, Callback(origin.url("/done"), "cb", BODY), Retries(3, 60, 60), stop=told.is_set)
