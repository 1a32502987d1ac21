"""`headgate` as a shell finds it: has the command forked, passes signals on, and exits like the command.

It is a file in the forge's own folder (see tests/cli/forked.py), and starts with as few imports as possible: ten
milliseconds rather than four hundred.
"""

import json
import os
import signal
import socket
import sys

FORGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "desk")  # noqa: PTH100, PTH118, PTH120 - pathlib takes longer
#: The forge's answer for an interpreter that would have to be started again.
NOT_HERE = b"not here"
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    order = {"words": sys.argv, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 - as above
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as desk:
        desk.connect(FORGE)
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: desk.send(str(number).encode()))
        socket.send_fds(desk, [json.dumps(order).encode()], [0, 1, 2])
        answer = desk.recv(100)
    if answer == NOT_HERE:
        program = os.path.join(os.path.dirname(sys.executable), "headgate")  # noqa: PTH118, PTH120 - as above
        os.execv(program, [program, *sys.argv[1:]])  # noqa: S606 - the command itself
    end_as(int(answer))


def end_as(code: int) -> None:
    """With the command's exit code, or by the signal that ended it."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
