"""`assay kv recipe`: commands in text and in JSON, and refusals with an exit code."""

import json

import pytest

pytest.importorskip("torch")

from command_line import assay

LLAMA = {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}
FORK = ["--vllm", "0.18.1.dev3+g2315e62e2", "--flashinfer", "0.6.7+g2b532f7"]


@pytest.mark.slow
def test_the_verb(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    words = ["kv", "recipe", tmp_path]
    shown = assay(*words, *FORK, cwd=tmp_path)
    assert shown.returncode == 0 and "vllm_start.py" in shown.stdout
    as_json = json.loads(assay(*words, *FORK, "--json", cwd=tmp_path).stdout)
    assert as_json["known"] is True and as_json["versions"]["vllm"]["version"] == FORK[1]
    refused = assay(*words, "--vllm", "0.27.1", cwd=tmp_path)
    assert refused.returncode == 2 and "one name for keys and values" in refused.stderr
