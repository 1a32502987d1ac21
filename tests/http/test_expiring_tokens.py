"""API tokens that expire soon are reported in time: by the API, to its clients, and on the first page."""

from headgate import Gate, connect
from headgate.http.port.server import Server
from tests.http.conftest import Tokens

DAY = 86400.0


def test_tokens_that_expire_soon_are_reported_to_every_reader(gate: Gate, server: Server, with_scopes: Tokens) -> None:
    soon = gate.tokens.new("ann", ["read"], expires=13 * DAY)
    first = gate.tokens.new("ben", ["read"], expires=DAY)
    gate.tokens.new("late", ["read"], expires=15 * DAY)
    gate.tokens.new("forever", ["read"])
    gate.tokens.revoke(gate.tokens.new("revoked", ["read"], expires=DAY).id)
    wanted = [first.id, soon.id]
    reader = with_scopes("read")
    assert [each["id"] for each in reader.get("/v1/tokens/expiring").json()["items"]] == wanted
    assert "expiringTokens" not in reader.get("/v1/status").json()
    ending = reader.get("/v1/status", params={"rich": "true"}).json()["expiringTokens"]
    assert [(each["id"], each["name"]) for each in ending] == [(first.id, "ben"), (soon.id, "ann")]
    assert 0.9 * DAY < ending[0]["expires_in"] <= DAY
    with connect(server.url, token=soon.token) as far:
        assert [each.id for each in far.expiring_tokens()] == wanted
        assert [each["id"] for each in far.status(rich=True)["expiringTokens"]] == wanted
        assert far.notices()[-1].startswith(f"API token {soon.id} of ann expires in ")
    page = reader.get("/").text
    assert "2 API tokens about to expire" in page
    assert f"API token {first.id} of ben expires in " in page
