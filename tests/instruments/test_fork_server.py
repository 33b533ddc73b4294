"""A process that forks for each question: answers, limits, and nothing left behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from new_process import environment

from assay.instruments import forks, start_method
from assay.instruments.isolation import Limits


@pytest.fixture(scope="module", autouse=True, params=["fork", "spawn"])
def start(request):
    """Modules that the server can import, and a server of this module's own, by either start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment(Path(__file__).parent / "forked")["PYTHONPATH"])
        patch.setenv(start_method.VARIABLE, request.param)
        forget_servers()
        yield request.param
        forget_servers()


def forget_servers():
    for server in list(forks._servers.values()):
        forks._forget(server)


def wait_until(holds):
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "a process is still there"
        time.sleep(0.05)


def ask(function, *, timeout_s=30.0, **options):
    request = {"to": options.pop("to", 0)}
    return forks.ask(f"fork_questions:{function}", request, timeout_s=timeout_s, **options)


def test_answers_are_merged_and_every_question_has_a_process_of_its_own():
    first, second = ask("counts", to=2), ask("counts", to=1)
    assert set(first.values) == {"0", "1"} and first.ending is None
    assert first.values["0"] == first.values["1"] != second.values["0"]


@pytest.mark.parametrize(
    ("function", "ending"),
    [
        ("raises", "the process ended with exit code 1"),
        ("ends", "the process ended with exit code 3"),
        ("aborts", "the process was ended by SIGABRT"),
    ],
)
def test_what_was_answered_before_the_end_is_kept(function, ending):
    answers = ask(function)
    assert answers.values == {"first": 1}
    assert answers.ending == ending and not answers.out_of_memory


def test_time_has_a_limit_and_nothing_is_left():
    answers = ask("sleeps", timeout_s=0.5)
    assert answers.ending == "it took longer than 0.5 s"
    assert not Path(f"/proc/{answers.values['pid']}").exists()


def test_memory_has_a_limit():
    answers = ask("grows", memory_bytes=300 << 20)
    assert answers.out_of_memory and answers.ending == "it held more than 0.3 GiB"


def test_a_fork_asks_the_process_that_forked_it():
    """So the memory of a cell's calls costs no import of its own."""
    answers = ask("asks").values
    assert answers["own"] == answers["asked"] != answers["pid"]


@pytest.mark.parametrize("seconds", [0, 60])
def test_what_a_fork_started_ends_with_it(seconds):
    answers = ask("starts", to=seconds, timeout_s=2.0)
    assert (answers.ending is None) == (seconds == 0)
    wait_until(lambda: not is_alive(answers.values["started"]))


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_framework_is_imported_without_threads_of_python(framework):
    """A fork has only the thread that forked: what others held would stay locked."""
    pytest.importorskip(framework)
    modules = [f"assay.frameworks.{framework}"]
    bare = ask("threads").values["threads"]
    assert ask("threads", imports=modules, timeout_s=120).values["threads"] == bare


def test_forks_do_not_draw_the_same_numbers():
    """A timed call is checked on values that it cannot know beforehand."""
    first, second = (ask("draws", imports=["numpy"]).values["drawn"] for _ in range(2))
    assert not set(first) & set(second)


def test_a_third_environment_takes_the_place_of_the_first(tmp_path):
    files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
    for value in ("a", "b", "a", "c"):
        surroundings = {**os.environ, "SAID": value}
        end = forks.run(
            "fork_questions:says",
            {},
            environment=surroundings,
            limits=Limits(timeout_s=30),
            **files,
        )
        assert end.ending == "finished"
    assert files["stdout"].read_text().split() == ["a", "b", "a", "c"]
    assert [dict(key[1])["SAID"] for key in forks._servers if key[1]] == ["b", "c"]


def test_imports_may_begin_before_the_first_question(start, tmp_path):
    """The answer comes out of the process that has imported by then."""
    if start == "spawn":
        pytest.skip("a server that does not fork imports nothing")
    (tmp_path / "slow_to_import.py").write_text(
        "import os, pathlib\npathlib.Path(__file__).with_name('pid').write_text(str(os.getpid()))\n"
    )
    surroundings = environment(Path(__file__).parent / "forked", tmp_path, SAID="a")
    forks.begin_imports(["slow_to_import", "no_such_module"], surroundings)
    wait_until((tmp_path / "pid").exists)
    files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
    end = forks.run(
        "fork_questions:says",
        {},
        environment=surroundings,
        limits=Limits(timeout_s=30),
        **files,
    )
    (server,) = (
        s for key, s in forks._servers.items() if key[1] == frozenset(surroundings.items())
    )
    assert end.ending == "finished"
    assert int((tmp_path / "pid").read_text()) == server.process.pid


def test_what_is_printed_is_no_answer():
    assert ask("prints").values == {"answer": 1}


def test_a_killed_server_is_started_again():
    ask("counts", to=1)
    *_, server = forks._servers.values()
    server.process.kill()
    server.process.wait()
    assert ask("counts", to=1).values


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_answer_ends_with_whoever_asked():
    """The asker is killed while its question runs: server, fork and what that started end too."""
    code = (
        "from assay.instruments import forks\n"
        "forks.ask('fork_questions:counts', {'to': 0}, timeout_s=60)\n"
        "print(*[s.process.pid for s in forks._servers.values()], flush=True)\n"
        "forks.ask('fork_questions:starts', {'to': 60}, timeout_s=60)\n"
    )
    asker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    server = int(asker.stdout.readline())
    wait_until(lambda: any(children(fork) for fork in children(server)))
    (fork,) = children(server)
    started = children(fork)
    asker.kill()
    asker.wait()
    wait_until(lambda: not any(map(is_alive, (server, fork, *started))))


def test_where_an_import_touched_a_device_a_new_python_answers():
    """With the same lines and limits: it may ask, it is ended, and its crash is told."""
    forget_servers()
    spoils = {"imports": ["spoils"]}
    try:
        assert ask("spoiled", **spoils).values == {"spoiled": False}
        answers = ask("asks", **spoils).values
        assert answers["own"] == answers["asked"]
        assert set(ask("counts", to=2, **spoils).values) == {"0", "1"}
        assert "longer than 2 s" in ask("sleeps", timeout_s=2.0, **spoils).ending
        assert ask("aborts", **spoils).ending is not None
        assert ask("raises", **spoils).values == {"first": 1}
    finally:
        forget_servers()


def test_a_fork_that_was_being_made_ends_with_its_server(tmp_path, monkeypatch, start):
    """It was not in the server's list yet, and stood still for ever."""
    if start == "spawn":
        pytest.skip("a server that starts new Pythons imports nothing, and is not stopped by it")
    forked = tmp_path / "forked"
    monkeypatch.setenv("FORKED", str(forked))
    forget_servers()
    try:
        assert "ended" in ask("counts", to=1, imports=["ends_while_forking"]).ending
        wait_until(lambda: forked.read_text())
        pid = int(forked.read_text())
        wait_until(lambda: not is_alive(pid))
    finally:
        forget_servers()
