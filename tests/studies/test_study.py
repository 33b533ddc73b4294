"""A study's typed values: lists, plugin names, and that Kconfig and Study agree."""

from dataclasses import fields

import pytest

from assay import plugins
from assay.errors import BadInput
from assay.studies import kconfig
from assay.studies.stages import bench
from assay.studies.study import DEVICES, Study

READ = [
    ("BATCHES=1,8", "batches", (1, 8)),
    ("HEADS=8/8,8/2,8/1x256", "heads", ((8, 8, None), (8, 2, None), (8, 1, 256))),
    ("LENGTHS=64,113/1023", "lengths", ((64, 64), (113, 1023))),
    ("HEAD_DIMS=64,80", "head_dims", (64, 80)),
    ("DTYPES=bfloat16,float32", "dtypes", ("bfloat16", "float32")),
    ("MASKS=full,causal", "masks", ("full", "causal")),
    ("WORKLOADS=a,b", "workloads", ("a", "b")),
    ("WORKLOADS=", "workloads", ()),
    ("STUDY=gpt2-mla_1.0", "study", "gpt2-mla_1.0"),
    ("IMPLEMENTATIONS=sdpa,sequence/eager", "implementations", ("sdpa", "eager")),
    ("LAYERS=gemma_fast:cudnn,gemma:xla", "layers", ("gemma_fast:cudnn", "gemma:xla")),
    ("LAYERS=", "layers", ()),
    ("RESULTS=/scratch/runs", "results", "/scratch/runs"),
    ("MODELS_LATENT_WIDTH=128", "models_latent_width", 128),
    ("MODELS_SPLICE_RATIO=0.25", "models_splice_ratio", 0.25),
    ("MODELS_SPLICE_RATIO=", "models_splice_ratio", None),
    ("CAPTURE=n", "capture", False),
    ("CAPTURE=y", "capture", True),
    ("ROUNDS=3", "rounds", 3),
    ("CELL_TIMEOUT_S=604800", "cell_timeout_s", 604800),
    ("SEED=2147483647", "seed", 2147483647),
]

REFUSED = {
    "BATCHES=": "the list is empty",
    "BATCHES=1,": "empty entry",
    "BATCHES=,1": "empty entry",
    "BATCHES=1,,2": "empty entry",
    "BATCHES=1, 2": "' 2' has spaces around it",
    "BATCHES=1,1": "'1' repeats '1'",
    "BATCHES=0": "'0' is not a whole number",
    "BATCHES=-1": "'-1' is not a whole number",
    "BATCHES=1_0": "'1_0' is not a whole number",
    "BATCHES=08": "'08' is not a whole number",
    "BATCHES=two": "'two' is not a whole number",
    "BATCHES=" + "9" * 5000: "is not a whole number",
    "HEADS=8": "'8' is not query heads / kv heads",
    "HEADS=8/": "'' is not a whole number",
    "HEADS=8/3": "8 query heads do not divide over 3 kv heads",
    "HEADS=2/8": "2 query heads do not divide over 8 kv heads",
    "HEADS=8/0": "'0' is not a whole number",
    "HEADS=8/4/2": "'4/2' is not a whole number",
    "LENGTHS=128,128/128": "'128/128' repeats '128'",
    "LENGTHS=1/": "'' is not a whole number",
    "DTYPES=float64": "'float64' is not one of float32, float16, bfloat16",
    "MASKS=Causal": "'Causal' is not one of causal, full",
    "WORKLOADS=a,a": "'a' repeats 'a'",
    "STUDY=": "cannot name a folder",
    "STUDY=../up": "cannot name a folder",
    "STUDY=.hidden": "cannot name a folder",
    "STAGES=": "the list is empty",
    "STAGES=host,nosuch": "no stage 'nosuch'",
    "IMPLEMENTATIONS=nosuch": "no implementation 'nosuch'",
    "IMPLEMENTATIONS=no/such.py": "there is no file no/such.py",
    "IMPLEMENTATIONS=all,eager": "'all' stands alone",
    "IMPLEMENTATIONS=eager,sequence/eager": "'sequence/eager' repeats 'eager'",
    "PROBES=nosuch": "no probe 'nosuch'",
    "LAYERS=gemma": "there is no layer 'gemma'; did you mean gemma:xla?",
    "LAYERS=gemma:flash": "there is no layer 'gemma:flash'",
    "LAYERS=all,gemma:xla": "there is no layer 'all'",
    "LAYERS=gemma:xla,gemma:xla": "'gemma:xla' repeats 'gemma:xla'",
    "RESULTS=": "the folder is empty",
    "MODELS_SPLICE_RATIO=1.5": "'1.5' is not a share from 0 to 1",
    "MODELS_SPLICE_RATIO=half": "'half' is not a share from 0 to 1",
    "MODELS_SPLICE_RATIO=nan": "'nan' is not a share from 0 to 1",
    "ENGINE=nosuch": "no engine 'nosuch'",
    "ENGINE=": "no engine ''",
}


@pytest.mark.parametrize("entry,name,value", READ)
def test_read(entry, name, value):
    assert getattr(kconfig.load(None, [entry]), name) == value


@pytest.mark.parametrize("entry", REFUSED)
def test_refused_by_set(entry):
    with pytest.raises(BadInput) as caught:
        kconfig.load(None, [entry])
    assert str(caught.value).startswith(f"--set {entry}: ")
    assert REFUSED[entry] in str(caught.value)


@pytest.mark.parametrize("entry", REFUSED)
def test_refused_in_a_file(entry, tmp_path):
    symbol, _, value = entry.partition("=")
    path = tmp_path / "study"
    path.write_text(f'CONFIG_SEED=3\nCONFIG_{symbol}="{value}"\n')
    with pytest.raises(BadInput) as caught:
        kconfig.load(path)
    assert str(caught.value).startswith(f'{path}:2: CONFIG_{symbol}="{value}": ')
    assert REFUSED[entry] in str(caught.value)


def test_fields_are_the_symbols_of_kconfig():
    """Neither side has a name the other lacks; only SCHEMA stays in the file."""
    members = {f"DEVICE_{name.upper()}" for name in DEVICES}
    symbols = set(kconfig.load(None).config) - members - {"SCHEMA"}
    own = {item.name for item in fields(Study)} - {"plugin_folders", "config", "device"}
    assert {symbol.lower() for symbol in symbols} == own


def test_study_has_no_defaults_of_its_own():
    with pytest.raises(TypeError) as caught:
        Study()
    assert f"{len(fields(Study))} required" in str(caught.value)


def test_plugin_fields_say_their_kind():
    kinds = {item.name: item.metadata["kind"] for item in fields(Study) if "kind" in item.metadata}
    assert kinds == {
        "stages": "stages",
        "implementations": "sequence",
        "probes": "probes",
        "layers": "layers",
        "decoders": "decode",
        "cache_layouts": "layouts",
        "search_oom": "sequence",
        "engine": "engines",
        "train_dataset": "datasets",
        "train_tokenizer": "tokenizers",
        "train_optimizers": "optimizers",
        "train_evals": "evals",
    }
    assert set(kinds.values()) <= set(plugins.kinds())


def test_all_is_every_plugin_sorted(tmp_path):
    (tmp_path / "aaa_mine.py").write_text("def attention(q, k, v, *, causal, scale): ...\n")
    study = kconfig.load(None, ["IMPLEMENTATIONS=all"], [tmp_path])
    assert study.implementations == tuple(sorted(plugins.listing("sequence", study.plugin_folders)))
    assert study.implementations[0] == "aaa_mine"
    assert study.config["IMPLEMENTATIONS"] == '"all"'


def test_an_implementation_may_be_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def attention(q, k, v, *, causal, scale): ...\n")
    study = kconfig.load(None, [f"IMPLEMENTATIONS={path},eager"])
    assert study.implementations == ("mine", "eager") and path in study.plugin_folders


def test_two_files_of_one_name_are_refused(tmp_path):
    path = tmp_path / "eager.py"
    path.write_text("def attention(q, k, v, *, causal, scale): ...\n")
    with pytest.raises(BadInput, match="has the same name as"):
        kconfig.load(None, [f"IMPLEMENTATIONS=eager,{path}"])


def test_a_plugin_folder_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match="is not a folder"):
        kconfig.load(None, (), [tmp_path / "absent"])


@pytest.mark.parametrize("device", DEVICES)
def test_device_is_one_word(device):
    assert kconfig.load(None, [f"DEVICE_{device.upper()}=y"]).device == device


@pytest.mark.parametrize(
    "stages, probes", [("bench", "accuracy memory work"), ("check,bench", "memory work")]
)
def test_a_study_without_the_stage_check_checks_where_it_measures(stages, probes):
    """`bench --probe accuracy,memory,work --set STAGES=bench` refused all for want of a check."""
    entries = [f"STAGES={stages}", "PROBES=accuracy,memory,work", "WORKLOADS=b1_h1_s16_d16"]
    (cell,) = bench.cells(kconfig.load(None, entries))
    assert " ".join(cell.probes) == probes
