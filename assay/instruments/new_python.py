"""A question answered by a new Python, with nothing imported before.

For a fork whose framework cannot be used in it, and in place of every fork where forking is not
safe (start_method.py). `python -m assay.instruments.new_python PARENT CONTENT ASKER LINE` is given
the process with which it ends and three open files: the question, the socket for its answers, and
the one on which it may ask in its turn.
"""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn, TextIO

from assay.instruments import forks
from assay.instruments.descendants import adopt
from assay.instruments.forks import Server, as_lines
from assay.instruments.isolation import code_of, exit_with_parent
from assay.instruments.start_method import own_python

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


def become(question: Mapping[str, Any], asker: socket.socket, line: socket.socket) -> NoReturn:
    """Go on under the same number, which limits and whoever asked know, with both lines."""
    os.execv(sys.executable, _arguments(os.getppid(), question, asker, line))


def start(question: Mapping[str, Any], asker: socket.socket, line: socket.socket) -> int:
    """The number of a new Python that answers, in a group of its own; what it prints goes to the
    files that the question names."""
    printed = [
        (os.POSIX_SPAWN_OPEN, descriptor, question[name], _APPEND, 0o644)
        for descriptor, name in ((1, "stdout"), (2, "stderr"))
        if name in question
    ]
    arguments = _arguments(os.getpid(), question, asker, line)
    try:
        return os.posix_spawn(
            sys.executable, arguments, os.environ, file_actions=printed, setpgroup=0
        )
    finally:
        for descriptor in (asker, line):  # the next has lines of its own
            descriptor.set_inheritable(False)
        os.close(int(arguments[-3]))


def _arguments(
    parent: int, question: Mapping[str, Any], asker: socket.socket, line: socket.socket
) -> list[str]:
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(question).encode())
        file.flush()
        content = os.dup(file.fileno())
    descriptors = (content, asker.fileno(), line.fileno())
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    return own_python(__spec__.name, *map(str, (parent, *descriptors)))


def answer(question: Mapping[str, Any], answers: TextIO) -> None:
    """Call what the question names, and write what it yields."""
    module, _, function = question["function"].partition(":")
    for values in getattr(import_module(module), function)(question["request"]):
        print(json.dumps(values), file=answers, flush=True)


def main(parent: int, content: int, asker: int, line: int) -> None:
    """Answer the question in the open file `content`, while `parent` lives."""
    exit_with_parent(parent)
    adopt()
    question = json.loads(os.pread(content, os.fstat(content).st_size, 0))
    forks.own_server = Server(process=None, lines=as_lines(socket.socket(fileno=line)))
    forks.own_pid = os.getpid()
    forks.own_stderr = question.get("stderr")
    try:
        answer(question, as_lines(socket.socket(fileno=asker)))
    except OSError as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(code_of(error))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
