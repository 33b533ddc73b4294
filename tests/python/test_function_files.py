"""Functions that lie in no file of their own, written to one with all that they use."""

import functools
import linecache
import math
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from assay.attention import contract
from assay.attention.sequence import eager
from assay.errors import BadInput
from assay.python.function_files import write_function

k = object()  # a global that parameters are called like, as in many notebooks
NEGATIVE = -math.inf
DTYPE = torch.float32
model = torch.nn.Linear(2, 2)


def masked(scores, causal):
    queries, keys = scores.shape[-2:]
    later = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    return scores.masked_fill(later, NEGATIVE) if causal else scores


def local(function):
    """As though it had been written in a notebook: nothing can import it by its name."""
    function.__module__ = "__main__"
    return function


def made_in_a_notebook(factor):
    def mine(q, k, v, *, causal, scale):
        scores = factor * masked(q.to(DTYPE) @ k.to(DTYPE).mT * scale, causal)
        return (F.softmax(scores, -1).nan_to_num(0.0) @ v.to(DTYPE)).to(q.dtype)

    return mine


def with_a_model(q, k, v, *, causal, scale):
    return model(q)


def written(function, folder, **declared):
    return write_function(function, folder, declared=declared)


def test_a_function_brings_all_that_it_uses(tmp_path):
    path = written(made_in_a_notebook(1), tmp_path, accepts=["mask"], layout="BSHD")
    text = path.read_text()
    assert path.stem == "mine" and "k =" not in text.partition("def mine")[0]
    code = (
        "import sys, torch\nfrom assay.attention import contract\n"
        "mine = contract.load(sys.argv[1])\n"
        "q = torch.ones(1, 1, 2, 4)\n"
        "print(mine.accepts, mine.layout, mine.attention(q, q, q, causal=True, scale=1.0).sum())"
    )
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert ended.stdout.strip() == "frozenset({'mask'}) BSHD tensor(8.)", ended.stderr


def test_other_values_are_another_file(tmp_path):
    paths = {written(made_in_a_notebook(factor), tmp_path) for factor in (1, 1, 2)}
    assert len(paths) == 2 and all(path.name == "mine.py" for path in paths)


@pytest.mark.parametrize(
    "number",
    [
        0.125,
        -math.inf,
        np.float64(0.125),
        np.float64("inf"),
        np.float32(0.1),
        np.int64(3),
        np.True_,
    ],
)
def test_a_number_keeps_its_type(number, tmp_path):
    """np.float64(0.125) is a float, and was written as float('np.float64(0.125)')."""

    def mine(q, k, v, *, causal, scale):
        return number

    again = contract.load(str(written(mine, tmp_path))).attention(0, 0, 0, causal=True, scale=1.0)
    assert again == number and type(again) is type(number)


def test_a_function_of_a_module_is_imported(tmp_path):
    path = written(eager.attention, tmp_path)
    assert "from assay.attention.sequence.eager import attention" in path.read_text()
    own = contract.load(str(path))
    q = torch.ones(1, 1, 2, 4)
    assert own.attention(q, q, q, causal=True, scale=1.0).equal(q)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (local(with_a_model), "uses model, a Linear, which no file can hold.*my_attention.py"),
        (lambda q, k, v: v, "has no name of its own"),
        (functools.partial(with_a_model, 1), "has no name of its own"),
        (local(eval("lambda q: q", {"__name__": "__main__"})), "has no name of its own"),
    ],
)
def test_what_no_file_can_hold_is_refused_by_name(function, words, tmp_path):
    with pytest.raises(BadInput, match=words):
        written(function, tmp_path)
    assert not any(tmp_path.iterdir())


def doubled(function):
    @functools.wraps(function)
    def wrapper(*arguments, **options):
        return 2 * function(*arguments, **options)

    return wrapper


def plain(q, k, v, *, causal, scale):
    return v


@doubled
def decorated(q, k, v, *, causal, scale):
    return v


def registered(function):
    return function


@registered
def listed(q, k, v, *, causal, scale):
    return v


def calls_a_wrapper(q, k, v, *, causal, scale):
    return wrapped(q, k, v, causal=causal, scale=scale)


wrapped = doubled(plain)


def jitted(function):
    return pytest.importorskip("jax").jit(function)


@pytest.mark.parametrize("wrapper", [torch.compile, torch.no_grad(), jitted, doubled])
def test_a_wrapper_that_the_source_does_not_show_is_refused(wrapper, tmp_path):
    """The plain function inside was written, and its time given as that of the compiled."""
    for function in (plain, decorated, listed):
        with pytest.raises(BadInput, match=r"in a wrapper.*@torch.compile, or.*my_attention.py"):
            written(wrapper(function), tmp_path)
    with pytest.raises(BadInput, match="wrapped is plain in a wrapper"):
        written(local(calls_a_wrapper), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_decorator_is_written_with_its_function(tmp_path):
    path = written(local(decorated), tmp_path)
    assert path.read_text().count("@doubled\ndef decorated") == 1
    assert contract.load(str(path)).attention(0, 0, 3, causal=True, scale=1.0) == 6


def test_a_function_of_a_notebook_cell_is_written(tmp_path, monkeypatch):
    """The text of a cell is in no file, but where tracebacks look for it."""
    cell = "<ipython-input-1>"
    text = "def mine(q, k, v, *, causal, scale):\n    return factor * v\n"
    monkeypatch.setitem(linecache.cache, cell, (len(text), None, text.splitlines(True), cell))
    scope = {"__name__": "__main__", "factor": 2}
    exec(compile(text, cell, "exec"), scope)
    copied = written(scope["mine"], tmp_path).read_text()
    assert copied.index("factor = 2") < copied.index(text) < copied.index("attention = mine")


def test_a_function_without_source_is_refused_with_what_to_do(tmp_path):
    scope = {"__name__": "__main__"}
    exec("def mine(q, k, v, *, causal, scale):\n    return v", scope)
    with pytest.raises(BadInput, match=r"whose source cannot be read.*my_attention.py"):
        written(scope["mine"], tmp_path)


def test_another_version_of_a_module_is_another_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "users_kernels.py"
    module.write_text("def mine(q, k, v, *, causal, scale):\n    return v\n")
    from users_kernels import mine

    first = written(mine, tmp_path / "results")
    assert str(tmp_path) in first.read_text()
    module.write_text(module.read_text() + "# changed\n")
    assert written(mine, tmp_path / "results") != first
    assert Path(first).is_file()


def test_another_version_of_what_a_package_imports_is_another_file(tmp_path, monkeypatch):
    """`from users_package.parts import x` was looked for within the package, and so not found."""
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "users_package"
    package.mkdir()
    kernel = "def mine(q, k, v, *, causal, scale):\n    return FACTOR * v\n"
    texts = {"__init__": "", "parts": "FACTOR = 2\n"}
    texts["kernels"] = f"from users_package.parts import FACTOR\n\n{kernel}"
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    from users_package.kernels import mine

    paths = {written(mine, tmp_path / "results")}
    for name in ("parts", "__init__"):
        (package / f"{name}.py").write_text(f"{texts[name]}# changed\n")
        paths.add(written(mine, tmp_path / "results"))
    assert len(paths) == 3 and all(str(tmp_path) in path.read_text() for path in paths)


def test_a_module_that_no_import_finds_is_refused(tmp_path):
    """It was a KeyError of sys.modules."""
    made = types.ModuleType("made_by_hand")

    def mine(q, k, v, *, causal, scale):
        return made.attention(q, k, v)

    with pytest.raises(BadInput, match=r"uses the module made_by_hand.*my_attention.py"):
        written(mine, tmp_path)
