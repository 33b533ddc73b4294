"""Torch models as written: one record for each attention call, and nothing left behind."""

import pytest
import torch
import torch_models as made
from torch import nn
from torch.nn import functional

import assay
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.torch import sites as torch_sites
from assay.errors import BadInput


def traces_of(model):
    """Whatever a capture could have left in a process."""
    from transformers.modeling_utils import AttentionInterface

    hooks = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs")
    left = [hook for module in model.modules() for name in hooks for hook in getattr(module, name)]
    left += torch.overrides._get_current_function_mode_stack()
    left += torch._dynamo.callback.callback_handler.start_callbacks
    left += [device for device in ("ipu", "maia") if torch.is_autocast_enabled(device)]
    functions = (functional.scaled_dot_product_attention, AttentionInterface.get_interface)
    left += [
        function for function in functions if "assay" in str(getattr(function, "__module__", ""))
    ]
    return left


def test_one_record_for_each_call_with_all_that_belongs_to_it(tmp_path):
    model = made.Plain().eval()
    with assay.capturing(model, tmp_path) as capture:
        for _ in range(2):
            model(made.inputs())
    records = made.records(tmp_path)
    assert capture.report().records == len(records) == 6
    assert [(r.key.step, r.key.layer, r.key.call) for r in records] == [
        (step, layer, 0) for step in range(2) for layer in range(3)
    ]
    assert [r.key.site for r in records[:3]] == [f"blocks.{n}.attn" for n in range(3)]
    first = records[0]
    assert set(first.tensors) == {"x", "q", "k", "v", "out", "layer_out"}
    assert first.tensors["q"].shape == (2, 2, 5, 8)
    assert (first.phase, first.implementation, first.device) == ("eval", "sdpa", "cpu")
    assert first.scalars == {
        "causal": True,
        "alignment": "top-left",
        "scale": 8**-0.5,
        "dropout": 0.0,
    }


def test_values_are_those_the_model_computed(tmp_path):
    model = made.Plain(layers=1).eval()
    seen = []
    model.blocks[0].norm.register_forward_hook(lambda _m, _i, out: seen.append(out.detach()))
    model.blocks[0].attn.register_forward_hook(lambda _m, _i, out: seen.append(out.detach()))
    with assay.capturing(model, tmp_path):
        model(made.inputs())
    store = Store.open(tmp_path)
    read = store.read(made.records(tmp_path)[0])
    assert torch.equal(made.as_torch(read["x"]), seen[0])
    assert torch.equal(made.as_torch(read["layer_out"]), seen[1])


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_behind(tmp_path, fails):
    model = nn.Sequential(made.Plain(), made.KnowsFunction())
    assert not traces_of(model)
    with assay.capturing(model, tmp_path / "store"):
        assert traces_of(model)
        model(made.inputs())
    if fails:
        with pytest.raises(RuntimeError), assay.capturing(model, tmp_path / "other"):
            model(torch.zeros(2, 5, 7))
    assert not traces_of(model)
    assert made.sdpa is functional.scaled_dot_product_attention


def test_captures_may_end_in_any_order(tmp_path):
    model = made.Plain(layers=1)
    first = assay.capturing(model, tmp_path / "first", mode="shapes")
    second = assay.capturing(made.Plain(layers=1), tmp_path / "second", mode="shapes")
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    assert traces_of(model)
    second.__exit__(None, None, None)
    assert not traces_of(model)


def test_a_call_that_fails_is_forgotten_and_the_next_is_whole(tmp_path):
    class FailingAttention(made.SelfAttention):
        def forward(self, x):
            out = super().forward(x)
            if x.shape[1] == 3:
                raise RuntimeError("too short")
            return out

    model = made.Plain().eval()
    model.blocks[1].attn = FailingAttention()
    with assay.capturing(model, tmp_path) as capture:
        with pytest.raises(RuntimeError, match="too short"):
            model(made.inputs(length=3))
        model(made.inputs(length=4))
    records = made.records(tmp_path)
    assert [(r.key.step, r.key.layer) for r in records] == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert all("layer_out" in r.tensors for r in records)
    assert not capture.report().dropped


def test_what_is_written_over_later_is_kept_as_it_was(tmp_path):
    class Overwrites(nn.Module):
        def forward(self, x):
            out = functional.scaled_dot_product_attention(x, x, x)
            kept = out.clone()
            x.zero_(), out.zero_()
            return kept

    x = torch.randn(1, 2, 4, 8)
    expected = functional.scaled_dot_product_attention(x, x, x)
    before = x.clone()
    model = Overwrites()
    with assay.capturing(model, tmp_path):
        model(x)
    store = Store.open(tmp_path)
    read = store.read(made.records(tmp_path)[0])
    assert not x.any()
    assert torch.equal(made.as_torch(read["q"]), before)
    assert torch.equal(made.as_torch(read["out"]), expected)


def test_an_attention_of_another_name_is_found_when_it_is_called(tmp_path):
    model = nn.Sequential(made.Mixer(), nn.Identity(), made.Mixer())
    with assay.capturing(model, tmp_path):
        model(torch.randn(1, 2, 4, 8))
    records = made.records(tmp_path)
    assert [(r.key.layer, r.key.site) for r in records] == [(0, "0"), (1, "2")]
    assert set(records[0].tensors) == {"q", "k", "v", "out"}


@pytest.mark.parametrize("kind", [made.HoldsFunction, made.KnowsFunction])
def test_the_function_is_seen_whatever_it_is_called_by(tmp_path, kind):
    model = kind()
    with assay.capturing(model, tmp_path, mode="shapes"):
        model(torch.randn(1, 2, 4, 8)), model(torch.randn(1, 2, 4, 8))
    assert [r.key.step for r in made.records(tmp_path)] == [0, 1]


def test_multihead_attention_of_torch(tmp_path):
    model = nn.MultiheadAttention(16, 2, batch_first=True)
    x = made.inputs()
    with assay.capturing(model, tmp_path):
        model(x, x, x, need_weights=False)
    (record,) = made.records(tmp_path)
    assert record.tensors["q"].shape == (2, 2, 5, 8)


def test_patterns_name_modules_where_classes_do_not(tmp_path):
    model = nn.Sequential(made.Mixer(), made.Mixer())
    with assay.capturing(model, tmp_path, sites="1"):
        model(torch.randn(1, 2, 4, 8))
    (record,) = made.records(tmp_path)
    assert record.key.site == "1" and "x" in record.tensors


def test_attentions_are_told_from_what_they_are_made_of():
    class AttentionOutput(nn.Linear):
        pass

    class WholeAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = made.SelfAttention()
            self.out = AttentionOutput(1, 1)

    sites = torch_sites.Sites(nn.ModuleList([WholeAttention(), made.SelfAttention()]))
    assert [site.path for site in sites.hooked] == ["0.inner", "1"]


def test_two_calls_inside_one_module_are_two_records(tmp_path):
    class TwiceAttention(nn.Module):
        def forward(self, x):
            once = functional.scaled_dot_product_attention(x, x, x)
            return functional.scaled_dot_product_attention(once, x, x)

    model = nn.Sequential(TwiceAttention())
    with assay.capturing(model, tmp_path):
        model(torch.randn(1, 2, 4, 8))
    first, second = made.records(tmp_path)
    assert (first.key.call, second.key.call) == (0, 1)
    assert "x" in first.tensors and "layer_out" in second.tensors
    store = Store.open(tmp_path)
    assert torch.equal(
        made.as_torch(store.read(first)["out"]), made.as_torch(store.read(second)["q"])
    )


def test_steps_can_be_told(tmp_path):
    model = made.Plain(layers=1)
    with assay.capturing(model, tmp_path, mode="shapes") as capture:
        for step in (7, 9):
            capture.step = step
            model(made.inputs()), model(made.inputs())
        with pytest.raises(BadInput, match="step -1"):
            capture.step = -1
    assert [(r.key.step, r.key.call) for r in made.records(tmp_path)] == [
        (7, 0),
        (7, 1),
        (9, 0),
        (9, 1),
    ]


def test_only_what_is_wanted_is_taken(tmp_path):
    model = made.Plain(layers=4)
    options = CaptureOptions(every=2, mode="shapes")
    with assay.capturing(model, tmp_path, options, layers="1::2", outputs=False):
        for _ in range(3):
            model(made.inputs())
    records = made.records(tmp_path)
    assert [(r.key.step, r.key.layer) for r in records] == [(0, 1), (0, 3), (2, 1), (2, 3)]
    assert set(records[0].tensors) == {"x", "q", "k", "v"}
    assert records[0].file is None


def test_cuts_fit_each_other(tmp_path):
    model = made.Plain(layers=1).eval()
    with assay.capturing(model, tmp_path, heads="1", positions="2:4", rows="0"):
        model(made.inputs())
    (record,) = made.records(tmp_path)
    out, captured = made.replayed(Store.open(tmp_path), record)
    assert record.tensors["q"].shape == (1, 1, 2, 8)
    assert record.scalars["alignment"] == "bottom-right"
    assert record.tensors["k"].shape == (1, 1, 4, 8)
    assert captured.shape == out.shape
    assert "left out" in record.tensors["x"].why


def test_phases(tmp_path):
    model = made.Plain(layers=1)
    with assay.capturing(model, tmp_path, mode="shapes"):
        model(made.inputs())
        with torch.no_grad():
            model(made.inputs())
        model.eval()
        with torch.inference_mode():
            model(made.inputs())
    assert [r.phase for r in made.records(tmp_path)] == ["train", "eval", "eval"]


def test_a_part_called_by_itself_belongs_to_the_step_before(tmp_path):
    model = made.Plain(layers=2)
    with assay.capturing(model, tmp_path, mode="shapes"):
        model(made.inputs())
        model.blocks[1](made.inputs())
    assert [(r.key.step, r.key.layer, r.key.call) for r in made.records(tmp_path)] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 1, 1),
    ]


def test_tensors_without_values_are_passed_over(tmp_path):
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = made.Plain(layers=1)
    with assay.capturing(model, tmp_path) as capture:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model(torch.zeros(1, 4, 16))
        model.to("meta")(torch.zeros(1, 4, 16, device="meta"))
    assert capture.report().records == 0 and not capture.report().dropped


def test_what_does_not_fit_is_counted(tmp_path, capsys):
    model = made.Plain(layers=4)
    with assay.capturing(model, tmp_path, max_records=1) as capture:
        model(made.inputs())
    assert capture.report().dropped == {"record budget": 3}
    assert "dropped 3 (record budget)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "choices", "says"),
    [
        (object(), {}, "neither a torch.nn.Module nor a flax.linen.Module"),
        (nn.Identity(), {"evry": 2}, "no choice evry; there are"),
        (nn.Identity(), {"every": 0}, "every 0"),
    ],
)
def test_refusals(tmp_path, model, choices, says):
    with pytest.raises(BadInput, match=says):
        assay.capturing(model, tmp_path, **choices)
