"""`assay kv splice` as a user calls it."""

import importlib.util
import json

import pytest

pytest.importorskip("torch")

import typer
from command_line import assay

from assay.host import CHECKOUT
from assay.models.gpt2 import checkpoint
from assay.reports.row_files import read_rows
from assay.verbs._kv_splice import ROWS, splice


@pytest.fixture(scope="module")
def example():
    path = CHECKOUT / "docs/examples/splice_checkpoints.py"
    spec = importlib.util.spec_from_file_location("splice_checkpoints", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def saved(example, tmp_path):
    def save(*, codecs):
        path = tmp_path / "model.safetensors"
        checkpoint.save(example.trained(codecs=codecs), path)
        return path

    return save


@pytest.mark.parametrize(("codecs", "code"), [(True, 0), (False, 1)])
def test_rows_and_exit_code(saved, tmp_path, capsys, codecs, code):
    with pytest.raises(typer.Exit) as ended:
        splice(saved(codecs=codecs), as_json=True, out=tmp_path / "new" / "folder")
    assert ended.value.exit_code == code
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == read_rows(tmp_path / "new" / "folder" / ROWS)
    assert [row["verdict"] for row in printed] == ["learning" if codecs else "stuck"] * 4
    assert not [name for row in printed for name in row if " " in name]


def test_a_table_for_people(saved, tmp_path):
    done = assay("kv", "splice", saved(codecs=False), cwd=tmp_path)
    assert done.returncode == 1
    assert "1.3133" in done.stdout and "stuck [1]" in done.stdout
    assert "see the gates splice and gradients" in " ".join(done.stdout.split())


def test_bad_input_in_words(tmp_path):
    done = assay("kv", "splice", "absent.safetensors", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot read absent.safetensors: No such file" in done.stderr
