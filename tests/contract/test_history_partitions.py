"""The history partitioned by month on PostgreSQL, by the statements of the how-to page."""

import re
from pathlib import Path

import headgate
from headgate.daemon_wiring import daemon_rounds
from headgate.stores.sql.database.sql_text import Statement
from tests.conftest import fresh_store
from tests.contract.ledger_steps import database
from tests.shared_servers import Servers

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "history.md"
DAY = 86_400 * 1_000_000
WHERE = Statement("Entries by partition.", "select tableoid::regclass::text, count(*) from hg_history group by 1")
LATER = Statement("The newest is of another month.", "update hg_history set at = at + :far where id = 7")
OLDER = Statement("Time passes.", "update hg_history set at = at - :far where id < 7")


def test_a_partitioned_history_is_written_paged_and_shortened(servers: Servers, tmp_path: Path) -> None:
    (script,) = re.findall(r"^```postgres\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for url in fresh_store("postgresql", servers, tmp_path):
        with headgate.connect(url) as gate:
            for number in range(3):
                gate.locks.release(gate.locks.acquire("ann", f"file:/{number}", "write"))
            before = gate.history()
            database(gate).lend(lambda connection: connection.cursor().execute(script))
        with headgate.connect(url, history_keep="1d") as gate:
            assert gate.history() == before
            gate.locks.acquire("ann", "file:/new", "write")
            database(gate).write(lambda tx: tx.run(LATER, far=40 * DAY))
            found = {str(name): int(count) for name, count in database(gate).single(WHERE)}
            assert found.pop("hg_history_before") == 6
            assert list(found.values()) == [1], "next month's partition"
            first = gate.history(limit=4)
            assert [entry.id for entry in (*first, *gate.history(after=first.next))] == [7, 6, 5, 4, 3, 2, 1]
            database(gate).write(lambda tx: tx.run(OLDER, far=2 * DAY))
            assert sum(rounds.act() for rounds in daemon_rounds(gate, ["history"], 1.0)) == 6
            assert [entry.id for entry in gate.history()] == [7]
