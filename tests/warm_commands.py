"""Commands in forks of a Python that has imported torch and the command line already.

A command of `assay` imports for a second before it does anything, and the process that forks for
its cells imports torch for three. Here both are forks, of a process that has called nothing: with
their own arguments, folder, environment and files, as `python -m assay` has them. Variables that
libraries read while they are imported (`_READ_ON_IMPORT`) must be the same, or it is a new Python.
"""

import atexit
import gc
import io
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import SimpleNamespace

_READ_ON_IMPORT = ("OMP_", "OPENBLAS_", "TRITON_")
_SERVER = "assay.instruments.fork_server"
_IMPORTED = (
    "torch",
    _SERVER,
    "assay.cli",
    "assay.correctness.models.selection",
    "assay.reports.build",
    "assay.studies.session",
    "assay.subjects.decode",
)
_WITH_CELLS = ("bench", "check", "replay", "study", "train")  # verbs that ask for forks
_MOST_BYTES = 1 << 20
_POLL_S = 0.005


def run(arguments, *, cwd, env, timeout):
    """`python -m assay ARGUMENTS` to its end, as subprocess.run does it with captured text."""
    if sys.platform != "linux":  # where forks are not safe
        command = [sys.executable, "-m", "assay", *arguments]
        how = {"cwd": cwd, "env": env, "timeout": timeout}
        return subprocess.run(command, capture_output=True, text=True, **how)
    with open(os.memfd_create("stdout"), "w+") as out, open(os.memfd_create("stderr"), "w+") as err:
        code = _code((*arguments,), cwd, env, (out.fileno(), err.fileno()), timeout)
        texts = [file.seek(0) or file.read() for file in (out, err)]
    return subprocess.CompletedProcess(arguments, code, *texts)


def _code(arguments, cwd, env, files, timeout):
    settings = {**_import_settings(env), "PYTHONPATH": env["PYTHONPATH"]}
    process, line = _warm(frozenset(settings.items()), os.getpid())
    question = {"arguments": arguments, "cwd": str(cwd), "env": env}
    line.settimeout(timeout)
    try:
        socket.send_fds(line, [json.dumps(question).encode()], files)
        return json.loads(line.recv(64))
    except TimeoutError:
        _warm.cache_clear()
        _end(process, line)
        raise subprocess.TimeoutExpired(arguments, timeout) from None


@cache
def _warm(settings, pid):
    """The process that forks commands of these settings, for the process `pid`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other = {name: v for name, v in os.environ.items() if not name.startswith(_READ_ON_IMPORT)}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**other, **dict(settings)},
            pass_fds=[theirs.fileno()],
        )
    atexit.register(_end, process, ours)
    return process, ours


def _end(process, line):
    line.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()  # and with it what it waits for: see exit_with_parent
        process.wait()


def _import_settings(env):
    return {name: value for name, value in env.items() if name.startswith(_READ_ON_IMPORT)}


def _serve(line):
    """Fork for every command, one after the other, until nobody is there to ask."""
    for module in _IMPORTED:
        import_module(module)
    plugins, digests = map(import_module, ("assay.plugins", "assay.code_digests"))
    listed = [plugin for kind in plugins.kinds() for plugin in plugins.listing(kind).values()]
    digests.code_digests(*(plugin.path for plugin in listed))  # kept, for they do not change
    gc.freeze()  # or every fork would copy what it looks through
    weakref.finalize._registry.clear()  # or every fork would take torch's operators apart
    parent = os.getpid()
    while True:
        question, files, _, _ = socket.recv_fds(line, _MOST_BYTES, 2)
        if not question:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            import_module("assay.instruments.isolation").exit_with_parent(parent)
            _leave_with(_command, json.loads(question), files)
        for file in files:
            os.close(file)
        _, status = os.waitpid(pid, 0)
        line.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _command(question, files):
    """Go on as `python -m assay`."""
    for file, place in zip(files, (1, 2), strict=True):
        os.dup2(file, place)
        os.close(file)
    os.chdir(question["cwd"])
    _become(question["env"])
    arguments = question["arguments"]
    sys.argv, sys.orig_argv = ["assay", *arguments], [sys.executable, "-m", "assay", *arguments]
    if arguments[:1] and arguments[0] in _WITH_CELLS:
        _lend_servers()
    runpy.run_module("assay", run_name="__main__", alter_sys=True)


def _become(env):
    """Have an environment, and what a Python makes of it when it starts."""
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = os.getcwd()
    random.seed()
    if env.get("PYTHONUNBUFFERED"):
        for place, name in ((1, "stdout"), (2, "stderr")):
            raw = io.FileIO(place, "w", closefd=False)
            setattr(sys, name, io.TextIOWrapper(raw, write_through=True))


def _lend_servers():
    """Fork what may become the two servers of a study now, while nothing was called."""
    from assay.instruments import forks

    lent = [_Lent(), _Lent()]
    ours = _import_settings(os.environ)

    def started(command, *, env, pass_fds, **how):
        if lent and command[1:3] == ["-m", _SERVER] and _import_settings(env) == ours:
            return lent.pop().become(env, *pass_fds)
        return subprocess.Popen(command, env=env, pass_fds=pass_fds, **how)

    forks.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": started})


class _Lent:
    """A child that waits to become a process that forks, or for the end of its parent."""

    def __init__(self):
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        self.code = None
        if self.pid == 0:
            self.line.close()
            _leave_with(self._wait, theirs, parent)
        theirs.close()

    def _wait(self, line, parent):
        from assay.instruments import fork_server

        env, files, _, _ = socket.recv_fds(line, _MOST_BYTES, 1)
        line.close()
        if env:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _become(json.loads(env))
            fork_server.main(parent, *files)

    def become(self, env, descriptor):
        socket.send_fds(self.line, [json.dumps(dict(env)).encode()], [descriptor])
        self.line.close()
        return self

    def poll(self):
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self, timeout=float("inf")):
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(_SERVER, timeout)
            time.sleep(_POLL_S)
        return self.code

    def kill(self):
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _leave_with(function, *arguments):
    """Call a function, and end this process as Python ends: never back into what it was before."""
    code = 1
    try:
        function(*arguments)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
