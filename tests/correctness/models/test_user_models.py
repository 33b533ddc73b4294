"""Models in a user's files: classes that count, what they are given, and refusals."""

import pytest

from assay.correctness.models import user_models
from assay.correctness.models.examination import run_gates
from assay.errors import BadInput
from assay.models.gpt2.config import GPTConfig, RA_MLA_Config

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
MODEL = """
class {name}(nn.Module):
    def __init__(self, {parameters}):
        super().__init__()
        self.wte = nn.Embedding({first}.vocab_size, {first}.n_embd)
        {more}

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def forward(self, idx, targets=None):
        logits = F.linear(self.wte(idx), self.wte.weight)
        {last}
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
"""


def written(path, *models, head=HEAD):
    path.write_text(head + "".join(models))
    return path


def text(name="GPT2_Mine", parameters="config", *, more="pass", last="pass"):
    first = parameters.partition(",")[0].partition(":")[0]
    return MODEL.format(name=name, parameters=parameters, first=first, more=more, last=last)


def load_all(path):
    return [user_models.load(path, name) for name in user_models.model_names(path)]


def test_the_name_of_the_first_parameter_says_which_configuration(tmp_path):
    file = written(tmp_path / "two.py", text("GPT2_A"), text("GPT2_B", "cfg, ratio=0.5"))
    plain, latent = load_all(file)
    assert (plain.name, type(plain.config)) == ("GPT2_A", GPTConfig)
    assert plain.source == file.resolve()
    assert (latent.name, type(latent.config)) == ("GPT2_B", RA_MLA_Config)
    assert plain.make(0).get_num_params() == 61 * 16
    with pytest.raises(BadInput, match=r"GPT2_C in .* is no model: wanted a torch\.nn\.Module"):
        user_models.load(file, "GPT2_C")


def test_what_is_imported_or_no_model_does_not_count(tmp_path):
    written(tmp_path / "base_of_child.py", text("GPT2_Base"))
    head = HEAD + "from base_of_child import GPT2_Base\n\nclass GPT2Config:\n    pass\n"
    head += "\nclass GPT2_Layer(nn.Module):\n    pass\n"
    head += "\nclass GPT2_Child(GPT2_Base):\n    pass\n"
    (child,) = load_all(written(tmp_path / "child.py", head=head))
    assert child.name == "GPT2_Child"
    assert child.make(0).get_num_params() == 61 * 16


@pytest.mark.parametrize(
    "content, message",
    [
        (HEAD + "class GPT2_X(nn.Module):\n    pass\n", "has no model: no class whose name begins"),
        ("import no_such_package\n" + text(), "fails on import: ModuleNotFoundError"),
        ("raise SystemExit(3)\n" + text(), "fails on import: SystemExit: 3"),
        ("from json import JSONDecoder\nGPT2_X = JSONDecoder\n", "GPT2_X in .* is no model"),
        (HEAD + text(parameters="config, width"), "needs width beside config; give them defaults"),
        (HEAD + text(parameters="options"), "first parameter is 'options'; call it config"),
    ],
)
def test_a_file_without_a_usable_model_is_refused(tmp_path, content, message):
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(BadInput, match=message):
        load_all(tmp_path / "mine.py")


def test_a_constructor_that_raises_fails_all_gates(tmp_path):
    file = written(tmp_path / "mine.py", text(more="self.x = nn.Linear(4)"))
    findings = run_gates(load_all(file)[0])
    assert {finding.status for finding in findings.values()} == {"failed"}
    for reason in (finding.reason for finding in findings.values()):
        assert reason.startswith("cannot be built with GPTConfig: TypeError: ")
        assert reason.endswith("(mine.py:9: self.x = nn.Linear(4))")


def test_a_forward_that_raises_is_a_finding_with_its_line(tmp_path):
    file = written(tmp_path / "mine.py", text(last="logits = logits @ torch.ones(3, 3)"))
    findings = run_gates(load_all(file)[0])
    assert findings["init"].status == "ok" and findings["causality"].status == "failed"
    assert findings["step"].reason.startswith("RuntimeError: ")
    assert findings["step"].reason.endswith("logits = logits @ torch.ones(3, 3))")


def test_a_model_that_sees_no_other_token_fails_causality(tmp_path):
    findings = run_gates(load_all(written(tmp_path / "mine.py", text()))[0])
    failed = {gate: each.reason for gate, each in findings.items() if each.status == "failed"}
    assert list(failed) == ["causality"]
    assert "do not depend on any token before it" in failed["causality"]
    assert findings["cached"].status == "unsupported"
