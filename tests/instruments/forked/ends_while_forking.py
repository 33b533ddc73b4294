"""A server that is told to end while it forks; the fork stands still before its first line."""

import os
import signal


def stand_still():
    with open(os.environ["FORKED"], "w") as file:
        file.write(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)


def end_soon():
    while not os.path.exists(os.environ["FORKED"]):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


os.register_at_fork(after_in_child=stand_still, after_in_parent=end_soon)
