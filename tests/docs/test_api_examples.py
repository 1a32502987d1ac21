"""The requests and answers in the reference of the API are those of a real service; `make pages` records them again."""

import json
from pathlib import Path

import httpx2

import headgate
from headgate.http.api.description import openapi
from headgate.http.app import API
from headgate.http.port.server import Server
from headgate.http.service import Service
from tests.docs.api_tour import PROFILE, Tour, travel
from tests.docs.pages import ROOT
from tests.docs.sessions import RENEWS

EXAMPLES = ROOT / "docs/reference/api-examples.json"
#: These answer with text: an endless stream, and metrics.
NO_JSON = {"GET /v1/events", "GET /metrics"}


def test_every_operation_is_shown_with_what_a_service_answers(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/maps.toml").write_text(PROFILE)
    folders = {"work_folder": "work", "storage_root": "store", "profiles_folder": "profiles"}
    settings = {name: str(tmp_path / each) for name, each in folders.items()}
    with headgate.connect(f"sqlite:///{tmp_path}/headgate.db", space_threshold="0", **settings) as gate:
        server = Server(Service(gate), "127.0.0.1:0")
        server.start()
        headers = {"Authorization": f"Bearer {gate.tokens.new('ann', ['admin']).token}"}
        with httpx2.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as client:
            tour = Tour(client, str(tmp_path))
            travel(tour, gate)
        server.stop()
    operations = {f"{verb.upper()} {path}" for path, verbs in openapi(API)["paths"].items() for verb in verbs}
    assert set(tour.noted) == operations - NO_JSON
    found = json.dumps(dict(sorted(tour.noted.items())), ensure_ascii=False, indent=1) + "\n"
    if RENEWS:
        EXAMPLES.write_text(found, encoding="utf-8")
    shown = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    assert json.loads(found) == shown, "run `make pages` if that is right"
