"""Bad input of every kind to every verb: exit code 2, no traceback, and what to do instead.

Each line is given in a folder that holds files and folders of the names it uses.
"""

import shlex

import pytest
from command_line import assay

RUN = "results/x/20260101T000000.000Z-0000"
LINES = {
    # files that are missing, empty, broken, of another kind, or folders
    "check folder": "--plugins folder",
    "check folder.py": "that is a folder",
    "check sdpa --workload b1_h8_s99999999999": "no size may be above 999,999,999",
    "bench sdpa --comparisons 20": "add --aa or --against RUN",
    "eval random:llama": "name evals with --eval",
    "verify missing.toml": "cannot read missing.toml: No such file",
    "check missing.py": "there is no file missing.py",
    "check empty.py": "defines no function attention",
    "check broken.py": "cannot be read as Python",
    "check noise.py": "cannot be read as Python",
    "check eager --plugins text.txt": "is not a folder",
    "check eager --config folder": "`assay config list` names",
    "check eager --config noise.npz": "is not UTF-8",
    "check eager --out text.txt --workload b1_h1_s3_d16": "is a file, not a folder",
    "bench eager --against folder": "is not the folder of a run",
    f"bench eager --against {RUN}": "run.json: Input data was truncated",
    "replay folder": "is not a store of captures",
    "replay text.txt": "assay capture import text.txt --to DIR",
    "replay store": "it has no records",
    "inspect missing.npz": "there is no missing.npz",
    "inspect noise.npz": "cannot be read as npz",
    "inspect empty.npz": "cannot be read as npz",
    "inspect folder": "is not a store of captures",
    "report text.txt": "is not the folder of a run",
    f"report {RUN}": "run.json: Input data was truncated",
    "law missing": "is not the folder of a run",
    "query 'SELECT 1' --out text.txt": "there is no results folder text.txt",
    "verify missing": "missing",
    "publish text.txt --to new": "is not the folder of a run",
    "mirror missing --to wandb": "is not the folder of a run",
    "runs keys half.json": "cannot be read as JSON",
    "runs keys noise.db": "is no store of trackio",
    "capture run --hf random:llama --to text.txt": "text.txt is a file; name a folder",
    "capture run --hf random:llama --to c --text missing": "cannot read the text missing",
    "capture run --hf empty.gguf --to c": "cannot be read as GGUF",
    "capture export folder": "is not a store of captures",
    "capture import noise.npz --to c": "refused noise.npz",
    "kv sizes missing": "is no model of this family",
    "kv splice noise.npz": "noise.npz",
    "config check --file missing": "cannot read missing",
    "study status folder": "is not the folder of a run",
    # names
    "runs half.json": "there are keys, gpu, compare",
    "capture run --hf random:lama --to c": "did you mean random:llama?",
    "check eager --set ROUNDS": "wanted SYMBOL=VALUE",
    # numbers
    "check eager --seed -1": "--seed -1: out of range",
    "check eager --seed nan": "'nan' is not a whole number",
    "check eager --cases 0": "0 is too small; the least is 1",
    "check eager --budget-s 1e3": "'1e3' is not a whole number",
    "check eager --device cuda:99": "--device cuda:99: out of range",
    "check eager --workload b0_h1_s1": "every size must be at least 1",
    "check eager --workload b1_h3_kv2_s9": "make the first a multiple of the second",
    "kv sizes GPT2 --length nan": "wanted whole numbers from 1 on",
    "kv fit GPT2 --memory -3": "wanted a number of bytes",
    "kv fit GPT2 --memory 1B": "give more memory",
    "replay store --scale nan": "wanted one number above 0",
    "study plan --set LENGTHS=0": "is not a whole number from 1",
    # nothing at all
    "check eager --workload ''": "--workload is empty",
    "check eager --dtype ''": "--dtype is empty",
    "bench ''": "an argument is empty",
    "kv quality": "no model is named",
    # twice, or against each other
    "check eager,eager": "'eager' repeats 'eager'",
    "check eager --set SEED=1 --set SEED=2": "already set by --set SEED=1",
    "check --models GPT2 --dtype fp16": "takes no --dtype",
    "check --fast --models GPT2": "--models GPT2 has already chosen",
    "bench eager decode/dense": "give one kind at a time",
    "inspect --diff store": "--diff compares two",
    "verify folder folder folder": "3 runs were given",
    "train --watch --steps 3": "takes no --steps",
    "study freeze x --run folder --set SEED=1": "leave out --config and --set",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every wrong kind."""
    folder = tmp_path_factory.mktemp("bad")
    for name in ("empty.py", "empty.npz", "empty.gguf"):
        (folder / name).touch()
    for name in ("noise.py", "noise.npz", "noise.db"):
        (folder / name).write_bytes(bytes(range(255, 0, -1)))
    (folder / "broken.py").write_text("syntax error(\n")
    (folder / "text.txt").write_text("hello\n")
    (folder / "half.json").write_text('{"a":\n')
    for name in ("folder", "folder.py", "store", RUN):
        (folder / name).mkdir(parents=True)
    (folder / "store" / "manifest.jsonl").touch()
    (folder / RUN / "run.json").write_text("{")
    return folder


@pytest.mark.parametrize("line", LINES)
def test_bad_input_is_refused_in_words(line, folder):
    before = sorted(folder.rglob("*"))
    done = assay(*shlex.split(line), cwd=folder)  # which refuses a traceback
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert LINES[line] in " ".join(done.stderr.split()), done.stderr
    assert "assay" in done.stderr and len(done.stderr) < 1200
    made = {path for path in sorted(folder.rglob("*")) if path not in before}
    assert not {path for path in made if "results" in path.parts}, "nothing is left behind"
