"""A folder's files are its names; listing imports nothing; what is wrong is said by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay import plugin_source, plugins
from assay.attention import contract
from assay.code_digests import code_digests
from assay.errors import BadInput

ATTENTION = '"""Mine."""\n\n\ndef attention(q, k, v, *, causal, scale):\n    return q\n'


def test_listing_imports_nothing():
    code = (
        "import sys; from assay import plugins\n"
        "names = [p.name for kind in plugins.kinds() for p in plugins.listing(kind).values()]\n"
        "assert 'eager' in names and 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_listing_does_not_run_a_users_file(tmp_path):
    (tmp_path / "loud.py").write_text(ATTENTION + "raise SystemExit('imported')\n")
    assert plugins.listing("sequence", [tmp_path])["loud"].summary == "Mine."


def test_a_files_kind_is_told_by_its_functions(tmp_path):
    (tmp_path / "mine.py").write_text(ATTENTION)
    (tmp_path / "notes.py").write_text("def unrelated():\n    pass\n")
    assert "mine" in plugins.listing("sequence", [tmp_path])
    assert "mine" not in plugins.listing("probes", [tmp_path])
    assert "notes" not in plugins.listing("sequence", [tmp_path])


def test_a_stage_is_no_engine(tmp_path):
    """Every stage has the one function that an engine must have; it was listed as both."""
    (tmp_path / "walk.py").write_text("def cells(study): ...\ndef run(cell): ...\n")
    (tmp_path / "far.py").write_text("def run(jobs): ...\n")
    assert "walk" in plugins.listing("stages", [tmp_path])
    engines = plugins.listing("engines", [tmp_path])
    assert "far" in engines and "walk" not in engines


def test_a_subfolder_is_a_kind_and_a_package_is_a_plugin(tmp_path):
    package = tmp_path / "sequence" / "big"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(ATTENTION)
    assert plugins.listing("sequence", [tmp_path])["big"].path == package / "__init__.py"


def test_a_single_file_is_a_folder_of_one(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(ATTENTION)
    assert plugins.listing("sequence", [file])["mine"].path == file


def test_a_taken_name_is_refused(tmp_path):
    (tmp_path / "eager.py").write_text(ATTENTION)
    with pytest.raises(BadInput, match="unique within sequence"):
        plugins.listing("sequence", [tmp_path])


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(BadInput, match=r"no implementation 'egaer'.*eager"):
        plugins.find("sequence", "egaer")
    with pytest.raises(BadInput, match="no kind of plugin"):
        plugins.listing("sequences")


def test_a_file_with_a_slip_in_its_name(tmp_path):
    (tmp_path / "my_attention.py").write_text(ATTENTION)
    with pytest.raises(BadInput, match=r"no file .*my_atention.py; did you mean my_attention.py\?"):
        plugins.find("sequence", str(tmp_path / "my_atention.py"))


def test_a_kind_may_be_said():
    assert plugins.find("sequence", "sequence/eager").name == "eager"


def test_a_syntax_error_is_a_problem_of_that_file_alone(tmp_path):
    (tmp_path / "sequence").mkdir()
    (tmp_path / "sequence" / "broken.py").write_text("def attention(:\n")
    there = plugins.listing("sequence", [tmp_path])
    assert "line 1" in there["broken"].problem and there["eager"].problem is None
    with pytest.raises(BadInput, match="cannot be read as Python"):
        plugins.load(there["broken"])


@pytest.mark.parametrize(
    "line",
    ["FRAMEWORK = 7", "REQUIRES = 7", "REQUIRES = (7,)", "REQUIRES = ('',)", "REQUIRES = 'a'"],
)
def test_what_names_no_package_is_a_problem_of_that_file(tmp_path, line):
    (tmp_path / "mine.py").write_text(ATTENTION + line + "\n")
    mine = plugins.find("sequence", str(tmp_path / "mine.py"))
    assert mine.missing == ()
    with pytest.raises(
        BadInput, match=r"mine.py has a FRAMEWORK or REQUIRES that names no package"
    ):
        plugins.check(mine)


def test_a_file_that_fails_on_import_names_itself(tmp_path):
    (tmp_path / "bad.py").write_text(ATTENTION + "raise RuntimeError('no luck')\n")
    with pytest.raises(BadInput, match=r"bad.py fails on import: RuntimeError: no luck"):
        plugins.load(plugins.find("sequence", "bad", [tmp_path]))


def test_a_broken_file_of_unknown_kind_does_not_vanish(tmp_path):
    """Its functions would say of what kind it is, and nobody can read them."""
    (tmp_path / "broken.py").write_text("def attention(:\n")
    with pytest.raises(BadInput, match=r"broken.py cannot be read as Python.*mend it, or"):
        plugins.check_folders([tmp_path])


def test_a_file_without_its_function_is_refused(tmp_path):
    file = tmp_path / "empty.py"
    file.write_text("x = 1\n")
    with pytest.raises(BadInput, match="defines no function attention"):
        plugins.load(plugins.find("sequence", str(file)))


def test_literals_are_read_without_importing(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import a_package_that_is_not_there\n"
        "FRAMEWORK = 'jax'\nREQUIRES = ('a_package_that_is_not_there',)\nACCEPTS = {'mask'}\n"
        "COMPUTED = len('abc')\n\n" + ATTENTION
    )
    plugin = plugins.listing("sequence", [file])["mine"]
    assert plugin.requires == ("jax", "a_package_that_is_not_there")
    assert "a_package_that_is_not_there" in plugin.missing
    assert plugin.literals["ACCEPTS"] == {"mask"} and "COMPUTED" not in plugin.literals


def test_the_folder_gives_defaults_to_its_files():
    assert plugins.find("sequence", "eager").requires == ("torch",)


def test_a_folder_that_is_not_one():
    with pytest.raises(BadInput, match="is not a folder"):
        plugins.check_folders([Path("no/such/folder")])


def test_neighbours_can_be_imported(tmp_path):
    (tmp_path / "beside_me.py").write_text("ANSWER = 42\n")
    file = tmp_path / "mine.py"
    file.write_text("from beside_me import ANSWER\n" + ATTENTION)
    assert plugins.load(plugins.find("sequence", str(file))).ANSWER == 42


def test_a_file_runs_as_its_text_is_now(tmp_path):
    """A bench of two configurations written in the same second had twice the time of the first:
    Python takes bytecode for current where size and second of the last change are the same."""
    package = tmp_path / "mylib"
    package.mkdir()
    files = [tmp_path / "mine.py", tmp_path / "beside_me.py", package / "deep.py"]
    (package / "__init__.py").write_text("")
    code = (
        "import sys; from pathlib import Path; from assay.plugins import import_file\n"
        "print(*import_file(Path(sys.argv[1])).ALL)"
    )

    def printed(block: int) -> str:
        files[0].write_text(f"import beside_me, mylib.deep\nALL = {block}, *beside_me.B")
        files[1].write_text(f"import mylib.deep\nB = {block}, mylib.deep.C")
        files[2].write_text(f"C = {block}")
        for file in files:
            os.utime(file, (1_000_000_000, 1_000_000_000))
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", code, str(files[0])]
        return subprocess.check_output(command, env=environment, text=True)

    assert [printed(64), printed(32)] == ["64 64 64\n", "32 32 32\n"]


def test_sources_follow_imports_anywhere_in_a_file(tmp_path):
    (tmp_path / "deep.py").write_text("x = 1\n")
    (tmp_path / "beside.py").write_text("def f():\n    import deep\n")
    file = tmp_path / "mine.py"
    file.write_text("import beside\nfrom assay.attention import reference\nimport numpy\n")
    digests = code_digests(file)
    assert {"mine.py", "beside.py", "deep.py", "assay/attention/reference.py"} <= set(digests)
    assert not any("numpy" in name for name in digests)


def test_sources_of_a_stage_reach_the_instruments():
    stage = plugins.find("stages", "bench").path
    reached = set(code_digests(stage))
    assert {
        "assay/performance/cell.py",
        "assay/subjects/sequence.py",
        "assay/studies/workload_cells.py",
    } <= reached
    assert not any(name.startswith("assay/reports") for name in reached)


def test_what_only_editors_import_is_not_followed_in_our_files():
    """In a user's file TYPE_CHECKING may be anything."""
    assert set(code_digests(plugins.PACKAGE / "__init__.py")) == {"assay/__init__.py"}


def test_a_users_own_package_is_followed_and_names_may_repeat(tmp_path):
    package = tmp_path / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from parts import two\nfrom .three import x\n")
    (package / "two.py").write_text("")
    (package / "three.py").write_text("x = 1\n")
    file = tmp_path / "mine.py"
    file.write_text("from parts import one\n" + ATTENTION)
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "mine.py").write_text(ATTENTION)
    assert {"mine.py", "one.py", "two.py", "three.py"} <= set(code_digests(file))
    assert len(code_digests(file, other / "mine.py")["mine.py"]) == 2


def test_a_users_module_on_the_path_of_python_is_followed(tmp_path, monkeypatch):
    """As after `pip install -e`, or with PYTHONPATH; what is installed counts by its version."""
    for folder in ("checkout/kernels_elsewhere", "site/kernels_installed", "site/x-1.dist-info"):
        (tmp_path / folder).mkdir(parents=True)
    module = tmp_path / "checkout" / "kernels_elsewhere" / "__init__.py"
    module.write_text("from kernels_elsewhere import fast_part\n")
    module.with_name("fast_part.py").write_text("x = 1\n")
    (tmp_path / "site" / "kernels_installed" / "__init__.py").write_text("")
    for folder in ("checkout", "site"):
        monkeypatch.syspath_prepend(tmp_path / folder)
    file = tmp_path / "mine.py"
    file.write_text("import kernels_elsewhere, kernels_installed, json, numpy, no_such_module\n")
    assert set(code_digests(file)) == {"mine.py", "__init__.py", "fast_part.py"}
    before = code_digests(file)
    module.with_name("fast_part.py").write_text("x = 2\n")
    assert code_digests(file) != before


def test_sources_of_kernels_beside_a_file_count(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(ATTENTION)
    (tmp_path / "kernel.cu").write_text("__global__ void f() {}")
    (tmp_path / "notes.txt").write_text("of no influence")
    assert set(code_digests(file)) == {"mine.py", "kernel.cu"}


def test_two_packages_of_a_user_do_not_replace_each_other(tmp_path):
    for name in ("first", "second"):
        folder = tmp_path / "sequence" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(ATTENTION + f"\n\nNAME = {name!r}\n")
    there = plugins.listing("sequence", [tmp_path])
    modules = [plugins.load(there[name]) for name in ("first", "second")]
    assert [module.NAME for module in modules] == ["first", "second"]
    assert len({module.__name__ for module in modules}) == 2


def test_a_function_may_be_made_by_assignment(tmp_path):
    """`attention = torch.compile(plain)` is a function too; what is none is told so."""
    (tmp_path / "made.py").write_text("from functools import partial\nattention = partial(print)\n")
    assert plugins.check(plugins.find("sequence", "made", [tmp_path])).name == "made"
    (tmp_path / "number.py").write_text("attention = 7\n")
    with pytest.raises(BadInput, match="attention is a int, wanted a function"):
        contract.load("number", [tmp_path])


@pytest.mark.parametrize(
    "text",
    [
        "from kernels import attention",
        "from kernels import fused as attention",
        "import kernels\nattention = kernels.fused",
        "import kernels\nattention: object = kernels.fused",
        "try:\n    from kernels import attention\nexcept ImportError:\n    attention = None",
        "try:\n    import absent\nexcept ImportError:\n    from kernels import attention",
        "if True:\n    def attention(q, k, v, *, causal, scale):\n        return q",
    ],
)
def test_a_wrapper_need_not_define_its_function(tmp_path, text):
    """A wrapper of one line, `from x import attention`, was told that it defines none."""
    (tmp_path / "kernels.py").write_text(
        "def fused(q, k, v, *, causal, scale):\n    return q\n\n\nattention = fused\n"
    )
    (tmp_path / "wrapper.py").write_text(f"{text}\n")
    assert "wrapper" in plugins.listing("sequence", [tmp_path])
    assert contract.load(str(tmp_path / "wrapper.py")).attention(1, 2, 3, causal=True, scale=1) == 1


def test_a_literal_that_depends_is_not_read(tmp_path):
    """Which of two branches runs is not known before the file is imported."""
    path = tmp_path / "either.py"
    path.write_text("if False:\n    BACKWARD = False\n\n\ndef attention():\n    pass\n")
    assert plugins.find("sequence", str(path)).literals["BACKWARD"] is True


def test_bodies_of_the_package_hide_nothing_from_a_listing() -> None:
    """Files of the package are described without the bodies of their functions."""
    for path in plugins.PACKAGE.rglob("*.py"):
        text = path.read_text()
        doc, literals, functions = plugin_source.parse(text, str(path))
        assert plugin_source.parse(plugin_source.without_bodies(text), str(path)) == (
            doc,
            literals,
            functions,
        ), path


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("import jax.numpy as jnp\n", True),
        ("try:\n    from jax import numpy as jnp\nexcept ImportError:\n    raise\n", True),
        ('FRAMEWORK = "jax"\nimport jax\n', False),
        ('FRAMEWORK = "torch"\nimport jax\n', False),
        ("import jax\nimport torch\n", False),
        ("def helper():\n    import jax\n", False),
    ],
)
def test_a_file_for_jax_that_does_not_say_so(tmp_path, text, refused):
    file = tmp_path / "mine.py"
    file.write_text(f"{text}\ndef attention(q, k, v, *, causal, scale): ...\n")
    mine = plugins.find("sequence", str(file))
    if not refused:
        assert plugins.check(mine) is mine
        return
    with pytest.raises(BadInput, match='add the line FRAMEWORK = "jax"'):
        plugins.check(mine)
    (listed,) = [p for p in plugins.listing("sequence", [tmp_path]).values() if p.name == "mine"]
    assert listed.problem
