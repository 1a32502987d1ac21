"""Random walks through mapped jobs and fan-out: a claimable chunk is found, whatever happened before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from headgate import BadValue, Claim, Gate, Lost, Refused, UnknownName
from tests.contract.ledger_steps import WHY
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
STEPS, LOOK_EVERY = 90, 3
SAMPLES, DAYS = ["s1", "s2"], [f"2026-02-{day:02}" for day in range(1, 5)]
LANES = [f"{sample}.{lane}" for sample in SAMPLES for lane in "12"]
PARTS = {"r1": ["s1.a", "s1.b", "s2.a"], "r2": ["s1.c", "s2.b"]}
PUBLISHED = {"raw": LANES, "runs": [*PARTS], "days": DAYS}
MADE = {
    "lane": ("lanes", LANES), "cut": ("", [*PARTS]), "merge": ("samples", SAMPLES), "gather": ("gathered", SAMPLES),
    "pair": ("pairs", LANES), "mix": ("mixed", SAMPLES), "month": ("months", ["2026-02"]), "trend": ("trends", DAYS),
    "rate": ("rated", SAMPLES), "tell": ("", SAMPLES),
}  # fmt: skip


def definitions(chance: Random) -> Mapping[str, dict[str, Any]]:
    """Every kind of mapping, alone and combined; `need` and the reaction to late inputs are random."""

    def some(kind: str, **more: Any) -> dict[str, Any]:
        late = {} if kind == "all" else {"on_late": chance.choice(["note", "redo"]), "late_delay": 0}
        return {"kind": kind, "need": chance.choice(["all", "any", 2]), **late, **more}

    by_sample = {"format": "{sample}.{part}", "job_format": "{sample}"}
    month = some("period", period="month", format="%Y-%m-%d")
    return {
        "lane": {"inputs": ["raw"], "outputs": ["lanes"]},
        "cut": {"inputs": ["runs"], "fan_out": ["parts"]},
        "merge": {"inputs": ["lanes"], "outputs": ["samples"], "maps": {"lanes": some("split", **by_sample)}},
        "gather": {"inputs": ["parts"], "outputs": ["gathered"], "maps": {"parts": some("split", **by_sample)}},
        "pair": {"inputs": ["lanes"], "outputs": ["pairs"], "maps": {"lanes": some("window", before=1, after=1)}},
        "mix": {
            "inputs": ["samples", "parts"], "outputs": ["mixed"],
            "maps": {"parts": some("split", **by_sample, need="any")},
        },
        "month": {"inputs": ["days"], "outputs": ["months"], "maps": {"days": month}},
        "trend": {"inputs": ["days"], "outputs": ["trends"], "maps": {"days": some("window", unit="day", before=1)}},
        "rate": {"inputs": ["samples", "lanes"], "outputs": ["rated"], "maps": {"lanes": some("all")}},
        "tell": {"inputs": ["gathered", "months"], "maps": {"months": some("all")}},
    }  # fmt: skip


class Walk:
    """Random actions of workers and operators."""

    def __init__(self, gate: Gate, seed: int) -> None:
        self.ledger, self.chance = gate.ledger, Random(seed)
        self.claims: list[Claim] = []
        self.done: list[str] = []
        for name in (*PUBLISHED, "parts", *(made for made, _ in MADE.values() if made)):
            self.ledger.define_dataset(name)
        for job, body in definitions(self.chance).items():
            self.ledger.define_job(job, **body)
        self._steps: Sequence[Callable[[], None]] = [
            *[self._publish] * 4, *[self._claim] * 8, *[self._report] * 8, *[self._act] * 6, self._close,
            self._set_status, self._define,
        ]  # fmt: skip

    def step(self) -> None:
        step = self.chance.choice(self._steps)
        with suppress(
            Refused, BadValue, UnknownName, Lost
        ):  # Each is a valid answer; what counts is the result afterwards.
            step()

    def _does(self, what: str, *words: object) -> None:
        self.done.append(" ".join([what, *map(str, words)]))

    def _publish(self) -> None:
        dataset = self.chance.choice([*PUBLISHED])
        dataid = self.chance.choice(PUBLISHED[dataset])
        self._does("publish", dataset, dataid)
        self.ledger.publish(dataset, dataid)

    def _claim(self) -> None:
        job = self.chance.choice([*MADE])
        claim = self.ledger.find_next(job, lease=3600)
        self._does("claim", job, claim and claim.dataid)
        self.claims += [claim] if claim else []

    def _report(self) -> None:
        if not self.claims:
            return
        claim = self.claims.pop(self.chance.randrange(len(self.claims)))
        event = self.chance.choice(["success", "success", "success", "fail", "interrupt"])
        self._does(event, claim.job, claim.dataid)
        if event != "success":
            getattr(self.ledger, event)(claim, WHY)
            return
        made = PARTS.get(claim.dataid, [])
        listed = {"parts": self.chance.sample(made, self.chance.randrange(len(made) + 1))}
        self.ledger.success(claim, outputs=listed if claim.job == "cut" else None)

    def _act(self) -> None:
        job, act = self.chance.choice([*MADE]), self.chance.choice(["hold", "unhold", "forget", "resubmit"])
        dataid = self.chance.choice([*MADE[job][1], "*"])
        more: dict[str, Any] = {"downstream": self.chance.random() < 0.5} if act == "resubmit" else {}
        self._does(act, job, dataid, more)
        if dataid == "*":
            self.ledger.change_selected(job, act, reason=WHY, dataids=[dataid], **more)
        else:
            getattr(self.ledger, act)(job, dataid, reason=WHY, **more)

    def _close(self) -> None:
        job = self.chance.choice(["merge", "gather", "month"])
        dataid, reopen = self.chance.choice(MADE[job][1]), self.chance.random() < 0.3
        self._does("reopen" if reopen else "close", job, dataid)
        self.ledger.close(job, dataid, reopen=reopen)

    def _set_status(self) -> None:
        dataset, dataids, job = self.chance.choice(
            [(dataset, dataids, "external") for dataset, dataids in PUBLISHED.items()]
            + [(made, dataids, job) for job, (made, dataids) in MADE.items() if made]
        )
        row = dataset, self.chance.choice(dataids), job, "OUTPUT", self.chance.choice(["READY", "ERROR", "HOLD"])
        self._does("set", *row)
        self.ledger.set_status(*row, reason=WHY)

    def _define(self) -> None:
        job, body = self.chance.choice([*definitions(self.chance).items()])
        self._does("define", job, body)
        self.ledger.define_job(job, **body)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_chunk_that_may_be_claimed_is_found_and_no_other(gate: Gate, seed: int) -> None:
    walk = Walk(gate, seed)
    for number in range(STEPS):
        walk.step()
        if number % LOOK_EVERY:
            continue
        for job, (_, dataids) in MADE.items():
            found = {verdict.dataid for verdict in walk.ledger.plan(job, 1000).next}
            granted = {dataid for dataid in dataids if walk.ledger.explain(job, dataid).granted}
            assert found == granted, (job, walk.done)
