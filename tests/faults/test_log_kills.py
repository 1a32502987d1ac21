"""Workers that are killed at any moment: the log contains what they had sent, in whole lines, from the first."""

import random
import re
import subprocess
import sys
from pathlib import Path

import headgate
from tests.cli.commands import PROGRAM, Headgate
from tests.waiting import until

CODE = "import itertools, time\nfor n in itertools.count(1): print('line', n, flush=True); time.sleep(0.003)"
KILLS = 4


def test_the_log_of_a_killed_worker_is_all_that_it_had_sent(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/headgate.db"
    command, seed = Headgate(url, tmp_path), random.randrange(1 << 32)
    chance = random.Random(seed)
    with headgate.connect(url) as gate:
        gate.ledger.define_dataset("raw")
        gate.ledger.define_dataset("tidy")
        gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], max_crashes=0)
        gate.ledger.publish("raw", [str(number) for number in range(KILLS)])
        for number in range(KILLS):
            dataid = str(number)
            words = [str(PROGRAM), "job", "run", "clean", "--dataid", dataid, "--", sys.executable, "-c", CODE]
            with subprocess.Popen(words, env=command.environment(), stdout=subprocess.DEVNULL) as worker:
                until(lambda dataid=dataid: gate.ledger.logs("clean", dataid), "the first lines to arrive")  # type: ignore[misc]
                (seen,) = gate.ledger.logs("clean", dataid)
                try:
                    worker.wait(chance.uniform(0, 2.5))
                except subprocess.TimeoutExpired:
                    worker.kill()
            (log,) = gate.ledger.logs("clean", dataid)
            assert log.text.startswith(seen.text), seed
            assert not log.ended, seed
            lines = [int(line) for line in re.findall(r"line (\d+)\n", log.text)]
            assert log.text == "".join(f"line {line}\n" for line in lines), seed
            assert lines == list(range(1, len(lines) + 1)), seed
