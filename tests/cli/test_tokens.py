"""API tokens on the command line, and the locks of their principals."""

import headgate as library
from headgate.calls.actor import acting
from headgate.core.access.owners import Actor
from tests.cli.commands import Headgate

RESOURCE = "file:/data/x"


def test_a_token_names_its_principal_is_rotated_and_revoked(headgate: Headgate) -> None:
    made = headgate("token", "new", "ann", "--principal", "nightly", "--scope", "lock:acquire", "--json").json
    rotated = headgate("token", "rotate", made["id"], "--json").json
    assert (made["principal"], rotated["principal"]) == ("nightly", "nightly")
    with library.connect(headgate.url) as gate, acting(Actor("nightly")):
        lock = gate.locks.acquire("copy", RESOURCE, "exclusive")
    handed = headgate("lock", "hand-over", lock.id, "--to", "daily", "--reason", "the night is over", "--json").json
    assert (handed["principal"], handed["token"]) == ("daily", lock.token + 1)
    back = headgate("lock", "hand-over", lock.id, "--to", "nightly", "--override", "not yet", "--json").json
    told = headgate("history", "--resource", RESOURCE, "--json").json["items"]
    assert told[0]["reason"] == "from daily to nightly; override: not yet"
    listed = headgate("token", "list")
    assert "PRINCIPAL" in listed.out
    revoked = headgate("token", "revoke", rotated["id"])
    assert (revoked.code, "the principal nightly still holds" in revoked.err, lock.id in revoked.err) == (0, True, True)
    assert headgate("lock", "release", lock.id, "--token", str(back["token"])).code == 0
