"""Wrong implementations are caught, for the right reason; sound ones are not flagged.

Each file in `defects` names the sound file it patches, the probes that may see the defect and words
of which the likely cause holds one (see patches.py). In `make test` only those probes run, in this
process, with few cases, on some of the defects. `make test-full` has all of them: each eighth with
the cases that these probes have by default (not those in JAX, for it compiles for every case), one
of each third family (mask_..., tile_...) also through `assay check FILE` in processes of their own;
and for every second probe one defect goes through all probes.
"""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import warm_commands
from new_process import environment
from patches import Defect, defects

import assay
from assay import plugins


def first_of_families(chosen: list[Defect]) -> list[Defect]:
    """The first defect of each family, which is the first word of a name."""
    families: dict[str, Defect] = {}
    for defect in chosen:
        families.setdefault(defect.name.partition("_")[0], defect)
    return list(families.values())


def is_jax(path: Path) -> bool:
    return plugins.find("sequence", str(path)).literals.get("FRAMEWORK") == "jax"


HERE = Path(__file__).parent
DEFECTS = defects(HERE / "defects")
IN_PROCESS = [defect for defect in DEFECTS if not defect.needs_own_process]
FIRST = first_of_families(IN_PROCESS)
IN_JAX = [defect for defect in IN_PROCESS if is_jax(defect.base or defect.path)]
OTHERS = [defect for defect in IN_PROCESS if defect not in FIRST and defect not in IN_JAX]
DEFAULT_CASES = OTHERS[::8]
FEW_CASES = [defect for defect in IN_PROCESS if defect not in DEFAULT_CASES]
OF_MODELS = (
    "heads_beyond_sixteen",
    "heads_fifth_kv_head",
    "heads_beyond_33",
    "heads_page_table",
    "mask_late_leak",
    "mask_late_leak_backward",
    "mask_top_left_many_keys",
    "output_is_an_input",
    "layout_dO_as_out",
    "layout_v_as_k",
)
ONE_FOR_EACH_PROBE = list({defect.caught_by[0]: defect for defect in IN_PROCESS}.values())
SOUND = sorted((HERE / "sound").glob("*.py"))
COMMANDED = SOUND[::5]  # through the command, the others in this process
IN_TORCH = [path for path in SOUND if not is_jax(path)]


def params(chosen: list[Defect], *, slow: bool) -> list:
    return [
        pytest.param(
            d, id=d.name, marks=[pytest.mark.slow] if slow or d.is_slow or d in IN_JAX else []
        )
        for d in chosen
    ]


def skip_where_missing(path: Path) -> None:
    if missing := plugins.find("sequence", str(path)).missing:
        pytest.skip(f"needs {', '.join(missing)}")


def assert_explained(defect: Defect, failures: list[tuple[str, str, str]]) -> None:
    """`failures` are probe, reason and cause of everything that failed."""
    assert failures, f"{defect.planted}: not caught"
    probes = {probe for probe, _, _ in failures}
    # What hangs or ends its process may do so where its limits are looked for.
    wanted = {*defect.caught_by, *(["limits"] if defect.needs_own_process else [])}
    assert probes & wanted, f"caught by {probes} only"
    assert defect.is_explained_by(text(failures)), text(failures)


def text(failures: list[tuple[str, str, str]]) -> str:
    return "\n".join(f"{probe}: {reason} | {cause}" for probe, reason, cause in failures)


@pytest.mark.sampled
@pytest.mark.parametrize("defect", params(FEW_CASES, slow=False))
def test_a_few_cases_catch_and_explain_it(defect, tmp_path):
    path = defect.write(tmp_path)
    skip_where_missing(path)
    failures = []
    # Most are explained by the few cases of a quick check, which is the faster by far.
    for options in ({"quick": True}, {"cases": 60}):
        for probe in defect.caught_by:
            verdict = assay.check(str(path), probes=[probe], **options)
            failures += [(m.metric, m.reason, m.cause or "") for m in verdict.failures]
            if defect.is_explained_by(text(failures)):
                return assert_explained(defect, failures)
    assert_explained(defect, failures)


@pytest.mark.parametrize("name", OF_MODELS)
def test_a_quick_check_reaches_what_models_have(name, tmp_path):
    """No case had more than 16 query heads, 4 kv heads or a causal mask beyond 130 tokens, or a dO
    that lay in memory as the output of a model does: each of these passed all 87 cases of a quick
    check, and nearly all passed the 442 of a full one."""
    (defect,) = (each for each in DEFECTS if each.name == name)
    probes = ("shapes", "causality", "purity", "strides")
    verdict = assay.check(str(defect.write(tmp_path)), quick=True, probes=probes)
    assert_explained(defect, [(m.metric, m.reason, m.cause or "") for m in verdict.failures])


@pytest.mark.sampled
@pytest.mark.parametrize("defect", params(ONE_FOR_EACH_PROBE, slow=False))
def test_the_case_that_is_named_fails_again(defect, tmp_path):
    """The command that repeats a failure of purity ran accuracy, which held."""
    path = defect.write(tmp_path)
    skip_where_missing(path)
    failures, probes = (), defect.caught_by
    for options in ({"quick": True}, {"cases": 60}):
        failures = failures or assay.check(str(path), probes=probes, **options).failures
    assert failures
    for failure in failures:
        if failure.workload is None:  # state that is kept: alone, the case is right
            assert "fails only after other calls" in failure.cause
            continue
        # An order of summation that is random may happen to be the same, so there are three tries.
        again = (
            assay.check(str(path), probes=[failure.metric], workloads=[failure.workload.name])
            for _ in range(3 if failure.metric == "determinism" else 1)
        )
        assert any(not verdict for verdict in again), failure.reason


# JAX compiles for every case, so what it runs takes minutes: only `make test-full` has it, once.
@pytest.mark.sampled
@pytest.mark.parametrize("path", IN_TORCH, ids=lambda path: path.stem)
def test_a_sound_implementation_is_not_flagged(path):
    skip_where_missing(path)
    verdict = assay.check(str(path), quick=True)
    assert verdict, str(verdict)
    assert any(m.status == "ok" for m in verdict.measurements)


def checked(path: Path, *flags: str, out: Path) -> tuple[int, list[tuple[str, str, str]], str]:
    """Exit code, failures and stderr of `assay check PATH`, which writes into `out`."""
    command = ["check", str(path), "--json", "--device", "cpu", *flags, "--out", str(out)]
    done = warm_commands.run(command, cwd=out, env=environment(), timeout=1500)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    failures = [
        (r["metric"], r["reason"], r.get("cause") or "")
        for r in records
        if r.get("status", "ok") not in ("ok", "unsupported", "skipped") and r.get("subject")
    ]
    return done.returncode, failures, done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize("defect", params([d for d in DEFECTS if d.needs_own_process], slow=False))
def test_what_hangs_or_ends_its_process_gets_a_verdict(defect, tmp_path):
    limits = ["--set", "CASE_TIMEOUT_S=8", "--probe", ",".join(defect.caught_by)]
    code, failures, errors = checked(defect.write(tmp_path), *limits, out=tmp_path)
    assert code == 1 and "Traceback" not in errors
    assert_explained(defect, failures)


@pytest.mark.parametrize("defect", params(DEFAULT_CASES, slow=True))
def test_the_default_cases_of_its_probes_catch_it(defect, tmp_path):
    path = defect.write(tmp_path)
    skip_where_missing(path)
    verdict = assay.check(str(path), probes=defect.caught_by)
    assert_explained(defect, [(m.metric, m.reason, m.cause or "") for m in verdict.failures])


@pytest.mark.parametrize("defect", params([d for d in FIRST if d not in IN_JAX][::3], slow=True))
def test_the_command_catches_it(defect, tmp_path):
    path = defect.write(tmp_path)
    skip_where_missing(path)
    flags = ["--cases", "60", "--probe", ",".join(defect.caught_by)]
    code, failures, _ = checked(path, *flags, out=tmp_path)
    assert code == 1
    assert_explained(defect, failures)


@pytest.mark.parametrize("defect", params(ONE_FOR_EACH_PROBE[::2], slow=True))
def test_a_run_of_all_probes_catches_it(defect, tmp_path):
    path = defect.write(tmp_path)
    skip_where_missing(path)
    flags = [] if defect is ONE_FOR_EACH_PROBE[0] else ["--quick"]
    code, failures, _ = checked(path, *flags, out=tmp_path)
    assert code == 1
    assert_explained(defect, failures)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [p for p in IN_TORCH if p not in COMMANDED][::4], ids=lambda path: path.stem
)
def test_sixty_cases_flag_nothing_sound(path):
    skip_where_missing(path)
    verdict = assay.check(str(path), cases=60)
    assert verdict, str(verdict)


@pytest.mark.slow
@pytest.mark.early
@pytest.mark.parametrize("path", COMMANDED, ids=lambda path: path.stem)
def test_a_run_flags_nothing_sound(path, tmp_path):
    skip_where_missing(path)
    few = ["--quick", "--probe", "accuracy,gradients,causality"]
    flags = ["--cases", "60"] if path in IN_TORCH else few
    code, failures, _ = checked(path, *flags, out=tmp_path)
    assert code == 0, failures
