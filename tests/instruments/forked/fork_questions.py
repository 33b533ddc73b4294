"""Functions that tests ask a fork of the server to run."""

import os
import time
from pathlib import Path


def counts(request):
    for number in range(request["to"]):
        yield {str(number): os.getpid()}


def raises(request):
    yield {"first": 1}
    raise ValueError("not today")


def ends(request):
    yield {"first": 1}
    os._exit(3)


def aborts(request):
    yield {"first": 1}
    os.abort()


def sleeps(request):
    yield {"pid": os.getpid()}
    time.sleep(60)


def grows(request):
    held = [bytearray(50 << 20) for _ in range(20)]
    time.sleep(60)
    yield {"held": len(held)}


def asks(request):
    from assay.instruments import forks

    answers = forks.ask("fork_questions:parent", {}, timeout_s=30)
    yield {"own": os.getppid(), "asked": answers.values["parent"], "pid": os.getpid()}


def parent(request):
    yield {"parent": os.getppid()}


def says(request):
    print(os.environ["SAID"])
    yield from ()


def starts(request):
    import subprocess

    started = subprocess.Popen(["sleep", "60"])
    yield {"started": started.pid}
    time.sleep(request["to"])


def threads(request):
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    yield {"threads": int(status.partition("Threads:")[2].split()[0])}


def draws(request):
    import random

    import numpy as np

    yield {"drawn": [random.random(), float(np.random.rand())]}


def prints(request):
    print("not an answer")
    yield {"answer": 1}


def spoiled(request):
    import sys

    yield {"spoiled": "spoils" in sys.modules}
