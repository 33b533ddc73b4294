"""Several processes train as one does: every loss, the final weights, and what is saved.

In float64 only the order of sums differs, by 1e-16 of each; eight steps of Adam, which divide small
gradients by their size, leave less than 1e-10, and a factor or a row that is wrong leaves 1e-3 or
more. In float32 a gradient that is zero but for rounding, as that of a key's bias, is brought to
the size of a step by the same division: the losses agree to 1e-5, single weights to a few steps.
One launch of torchrun trains all cases of a number of processes.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from new_process import environment
from rank_program import UNEVEN, trained
from safetensors.torch import load_file

from assay.errors import BadInput
from assay.train import saved_state
from assay.train.processes import Processes, device_of

pytestmark = pytest.mark.early  # what they share takes long to set up

KINDS = ("ddp", "fsdp")
COMPARED = (("GPT2", 64), ("GPT2", 32), ("GPT2_MLA_KV", 64))
EXACT = 1e-10
EXACT_LOSS = 1e-6  # what is recorded of windows is rounded to float32
PRUNED = "adamwprune+base=adamw+prune=bitter7+prune_every=2"
SPAM = "adamwspam+spike=0.1+interval=6+settle=2+warmup=2"
OPTIMIZERS = ("adamwadv", "muon", "sinkgd", PRUNED, "adamw+prune=movement+prune_every=2")


def case(
    name: str, kind: str, folder: Path, *, double=True, cut=None, late=0, full=False, **changes
) -> dict:
    own = {"name": name, "kind": kind, "folder": str(folder / name), "changes": changes}
    return own | {"double": double, "cut": cut, "late": late, "full": full}


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Cases that so many processes have trained."""

    out: Path
    world: int

    def weights(self, name: str) -> dict[str, torch.Tensor]:
        return load_file(self.out / f"{name}.safetensors")

    def losses(self, name: str) -> dict:
        return json.loads((self.out / f"{name}.json").read_text())


def launched(cases: list[dict], prepared, out: Path, world: int) -> Launch:
    asked = out / "cases.json"
    asked.write_text(json.dumps({"prepared": str(prepared.path), "cases": cases}))
    program = Path(__file__).parent / "rank_program.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                "--local-addr=127.0.0.1", f"--nproc-per-node={world}"]  # fmt: skip
    subprocess.run(
        [*launcher, program, asked, out],
        env=environment(Path(__file__).parent, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo"),
        check=True,
    )
    return Launch(out=out, world=world)


def comparisons(folder: Path) -> list[dict]:
    return [
        case(f"{kind}-{model}-{bits}", kind, folder, double=bits == 64, model=model)
        for kind in KINDS
        for model, bits in COMPARED
    ]


def resumptions(folder: Path, kind: str) -> list[dict]:
    """A run with dropout, whole and in two parts in the same folder; and one cut for others."""
    whole = case(f"{kind}-whole", kind, folder, double=False, dropout=0.1)
    cut = {**whole, "name": f"{kind}-cut", "cut": 6, "folder": str(folder / "cut" / kind)}
    rest = {**cut, "name": f"{kind}-rest", "cut": None}
    return [whole, cut, rest, case(f"{kind}-left", kind, folder, cut=6)]


@pytest.fixture(scope="module")
def two(prepared, tmp_path_factory) -> Launch:
    folder = tmp_path_factory.mktemp("two")
    cases = comparisons(folder) + resumptions(folder, "ddp") + resumptions(folder, "fsdp")
    cases += [case("fsdp-pruned", "fsdp", folder, optimizer=PRUNED)]
    cases += [case("time", "ddp", folder, late=1000, most_seconds=1, steps=10**6)]
    cases += [case("tokens", "fsdp", folder, most_tokens=5 * 8 * 16)]
    cases += [case("full", "fsdp", folder, full=True)]
    return launched(cases, prepared, folder, 2)


def alone(prepared, folder: Path, *, double=True, **changes):
    return trained(case("alone", "none", folder, double=double, **changes), prepared)


def apart(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    assert first.keys() == second.keys()
    return max(float((first[n] - second[n]).abs().max()) for n in first)


def losses_apart(first: dict, second: dict) -> float:
    pairs = [zip(first[n], second[n], strict=True) for n in ("train_loss", "val_loss", "grad_norm")]
    return max(abs(a - b) for pair in pairs for a, b in pair)


def require_same(
    launch: Launch, name: str, one: tuple[dict, dict], *, losses=EXACT_LOSS, weights=EXACT, steps=8
) -> None:
    """Losses and norms of every step, every window in its order, and the weights at the end are
    those of one process, to within `losses` and `weights`."""
    own = launch.losses(name)
    assert len(own["train_loss"]) == steps
    assert len(own["val_loss"]) == (steps // UNEVEN.evaluate_every + 1) * UNEVEN.windows
    between = losses_apart(own, one[1]), apart(launch.weights(name), one[0])
    print(f"{launch.world} {name}: losses {between[0]:.1e}, weights {between[1]:.1e}")
    assert between[0] < losses and between[1] < weights
    summaries = [values["summary"] for values in (own, one[1])]
    for metric in ("parameters", "unmoved_parameters", "generated_tokens"):
        assert summaries[0][metric][0] == summaries[1][metric][0]
    several, single = (summary["final_val_loss"][2] for summary in summaries)
    assert several["processes"] == launch.world and several["tokens"] == single["tokens"]


def require_equal_models(launch: Launch, prepared, folder: Path) -> None:
    for model, bits in COMPARED:
        one = alone(prepared, folder / f"{model}{bits}", double=bits == 64, model=model)
        for kind in KINDS:
            within = {} if bits == 64 else {"losses": 1e-5, "weights": UNEVEN.learning_rate}
            require_same(launch, f"{kind}-{model}-{bits}", one, **within)


def test_two_processes_train_as_one_does(two, prepared, tmp_path) -> None:
    """Tied weights, two micro-batches, gradients that are clipped, and shards and windows that do
    not divide evenly."""
    require_equal_models(two, prepared, tmp_path)
    assert max(two.losses("ddp-GPT2-64")["grad_norm"]) > UNEVEN.clip


def test_pruning_ranks_whole_matrices_where_weights_are_sharded(two, prepared, tmp_path) -> None:
    require_same(two, "fsdp-pruned", alone(prepared, tmp_path, optimizer=PRUNED))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_goes_on_in_as_many_processes_has_the_same_bits(two, kind) -> None:
    """With dropout: every process draws on from where it was left."""
    whole, rest = two.weights(f"{kind}-whole"), two.weights(f"{kind}-rest")
    assert two.losses(f"{kind}-rest")["first"] == 4  # saved every 4 steps, cut after 6
    assert apart(whole, rest) == 0.0
    assert two.losses(f"{kind}-whole")["train_loss"][4:] == two.losses(f"{kind}-rest")["train_loss"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_saved_on_two_goes_on_with_one(two, prepared, tmp_path, kind) -> None:
    left = {**case(f"{kind}-left", kind, tmp_path), "cut": None}
    _copy(two.out / left["name"], Path(left["folder"]))  # other tests go on from there too
    kept = saved_state.last(Path(left["folder"]))
    assert (kept.step, kept.processes) == (4, 2)
    weights, losses = trained(left, prepared)
    assert losses["first"] == 4
    assert apart(weights, alone(prepared, tmp_path / "alone")[0]) < EXACT


def test_limits_count_all_processes_and_the_first_decides_for_all(two) -> None:
    """The clock of rank 1 is at 1,000 s when training begins: alone it would stop at once."""
    assert two.losses("tokens")["step"] == 5
    assert two.losses("time")["step"] > 1
    for name in ("tokens", "time"):
        assert two.losses(name)["summary"]["final_val_loss"][2]["stopped_by"] == name


def test_where_the_first_cannot_write_all_end_in_words(two) -> None:
    first, second = ((two.out / f"full.{rank}").read_text() for rank in (0, 1))
    assert "the disk is full" in first and "the first process could not" in second


@pytest.mark.slow
def test_four_processes_train_as_one_does(two, prepared, tmp_path) -> None:
    """And go on from what two saved; from what four save, one goes on."""
    left = {**case("fsdp-left", "fsdp", tmp_path), "cut": None}
    on_four = [{**left, "name": f"{kind}-from-two", "kind": kind} for kind in KINDS]
    for entry in on_four:
        entry["folder"] = str(tmp_path / entry["name"])
        _copy(Path(case("fsdp-left", "fsdp", two.out)["folder"]), Path(entry["folder"]))
    cases = comparisons(tmp_path) + resumptions(tmp_path, "ddp") + resumptions(tmp_path, "fsdp")
    four = launched([*cases, *on_four], prepared, tmp_path, 4)
    require_equal_models(four, prepared, tmp_path / "alone")
    whole = alone(prepared, tmp_path / "whole")[0]
    for kind in KINDS:
        assert four.losses(f"{kind}-from-two")["first"] == 4
        assert apart(four.weights(f"{kind}-from-two"), whole) < EXACT
        assert apart(four.weights(f"{kind}-whole"), four.weights(f"{kind}-rest")) == 0.0
        again, losses = trained({**case(f"{kind}-left", kind, tmp_path), "cut": None}, prepared)
        assert losses["first"] == 4 and apart(again, whole) < EXACT


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())


@pytest.mark.slow
def test_every_optimizer_and_model_trains_in_several_processes_as_in_one(
    prepared, tmp_path
) -> None:
    models = ("GPT2_GATE", "GPT2_RA", "GPT2_MLA_RA_KV")
    cases = [case(f"{k}-{o}", k, tmp_path, optimizer=o) for k in KINDS for o in OPTIMIZERS]
    # Longer: a spike is held against ten norms before it.
    cases += [case(f"{k}-{SPAM}", k, tmp_path, optimizer=SPAM, steps=16) for k in KINDS]
    cases += [case(f"{k}-{m}", k, tmp_path, model=m) for k in KINDS for m in models]
    cases += [case(f"{k}-recompute", k, tmp_path, recompute=True) for k in KINDS]
    launch = launched(cases, prepared, tmp_path, 2)
    for entry in cases:
        one = alone(prepared, tmp_path / "alone" / entry["name"], **entry["changes"])
        # Muon computes in bfloat16, where the last bit of a float64 may become the last of 8.
        within = {"losses": 1e-3, "weights": 1e-3} if "muon" in entry["name"] else {}
        require_same(launch, entry["name"], one, steps=entry["changes"].get("steps", 8), **within)


@pytest.mark.parametrize(
    ("asked", "changes", "device", "words"),
    [
        (("none", 2), {}, "cpu", "TRAIN_PARALLEL=none; wanted ddp or fsdp"),
        (("ddp", 3), {}, "cpu", "TRAIN_BATCH=8 sequences do not divide over TRAIN_PROCESSES=3"),
        (("ddp", 8), {}, "cpu", "TRAIN_MICRO_BATCH=4 sequences do not divide"),
        (("fsdp", 2), {"compiled": True}, "cpu", "TRAIN_COMPILED with TRAIN_PARALLEL=fsdp"),
        (("ddp", 2), {}, "cuda:0", "need a GPU each, from cuda:0 on there are 1"),
        (("fsdp", 1), {"micro_batch": 0}, "cuda:0", "would leave the others waiting"),
    ],
)
def test_what_cannot_be_divided_is_refused(asked, changes, device, words) -> None:
    kind, count = asked
    with pytest.raises(BadInput, match=words):
        Processes(kind=kind, count=count).require(
            replace(UNEVEN, **changes), device=device, accelerators=1
        )


def test_every_process_has_a_gpu_of_its_own_or_the_one_cpu() -> None:
    assert [device_of("cuda:1", rank) for rank in (0, 1)] == ["cuda:1", "cuda:2"]
    assert [device_of("cpu", rank) for rank in (0, 1)] == ["cpu", "cpu"]
