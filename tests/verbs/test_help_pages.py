"""Help pages and completion: one look for all verbs, nothing split, names after Tab."""

import os
import re
import subprocess
import sys

import pytest
import typer
from command_line import assay
from new_process import environment

from assay import __version__, cli, plugins
from assay.help_pages import dressed


def pages():
    """Every command by its words: each verb, and each part of a verb."""
    for name, verb in plugins.listing("verbs").items():
        command = typer.main.get_command(dressed(plugins.load(verb).command()))
        yield (name,), command
        for part, inner in getattr(command, "commands", {}).items():
            yield (name, part), inner


PAGES = {" ".join(words): (words, command) for words, command in pages()}


def text_of(page):
    words, command = PAGES[page]
    parent = command.context_class(cli._group(), info_name="assay")
    for word in words[:-1]:
        parent = command.context_class(command, info_name=word, parent=parent)
    return command.get_help(command.context_class(command, info_name=words[-1], parent=parent))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_it_does_then_usage_example_and_flags(page):
    text = text_of(page)
    titles = [m[0] for m in re.finditer(r"^(Usage|Example|Arguments|Commands|Flags):", text, re.M)]
    assert titles[:2] == ["Usage:", "Example:"] and titles[-1] == "Flags:"
    assert not text.startswith("Usage"), "what it does comes first"
    assert f"\n  assay {page}" in text.partition("Example:")[2], "an example of this very command"
    assert max(map(len, text.splitlines())) <= 80
    assert "range>" not in text and "x>=" not in text and "│" not in text


@pytest.mark.parametrize("page", PAGES)
def test_no_flag_is_split_and_every_flag_has_help(page):
    _, command = PAGES[page]
    text = text_of(page)
    for param in command.params:
        assert getattr(param, "help", None), f"{page}: {param.name} has no help"
        for flag in (*param.opts, *param.secondary_opts):
            if flag.startswith("--"):
                assert re.search(rf"{flag}\b", text), flag


def test_the_first_page_lists_every_verb_in_whole_sentences(tmp_path):
    done = assay("--help", cwd=tmp_path)
    text = " ".join(done.stdout.split())
    for name, verb in plugins.listing("verbs").items():
        assert f"{name} {verb.summary}" in text
    assert "..." not in text.replace("COMMAND ...", "") and "--install-completion" in text


def test_version(tmp_path):
    done = assay("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"assay {__version__}\n")


def test_a_mistyped_flag(tmp_path):
    done = assay("bench", "eager", "--devic", "cpu", cwd=tmp_path)
    assert done.returncode == 2 and "--devic; did you mean --device?" in done.stderr
    part = assay("study", "rn", cwd=tmp_path)
    assert part.returncode == 2 and "no command 'rn'; did you mean run?" in part.stderr


OFFERED = {
    "assay ben": {"bench"},
    "assay study res": {"resume"},
    "assay check fl": {"flash2_torch", "flash2_triton", "flash_attn", "flash_hopper", "flex"},
    "assay check my": {"my_attention.py"},
    "assay bench x --vs sdpa,eag": {"sdpa,eager", "sdpa,eager_compiled"},
    "assay check --probe determ": {"determinism"},
    "assay check --workload b1_h8_s9_bf": {"b1_h8_s9_bfloat16"},
    "assay check --work": {"--workload"},
    "assay study run --config quick": {"quickstart"},
    "assay list prob": {"probes"},
}


@pytest.mark.parametrize("line", OFFERED)
def test_names_after_tab(line, tmp_path):
    (tmp_path / "my_attention.py").touch()
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    asked |= {"_ASSAY_COMPLETE": "complete_bash", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "assay"],
        cwd=tmp_path, env=environment() | asked, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert OFFERED[line] <= set(done.stdout.split()), (done.stdout, done.stderr)


def test_the_script_of_a_shell(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "assay"],
        cwd=tmp_path, env=environment() | {"_ASSAY_COMPLETE": "source_bash"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "complete -o default" in done.stdout and "_ASSAY_COMPLETE" in done.stdout
