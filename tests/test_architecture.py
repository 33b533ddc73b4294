"""The house rules that a machine can check: imports, names, plugins, what is committed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from assay import plugins
from assay.studies import kconfig

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "assay"

# room -> the rooms it may import. A new room is added here on purpose, or the test fails.
BASE = {"errors", "installation", "plugins", "code_digests", "devices", "host", "records"}
TELLING = {"errors", "installation", "host", "plugins", "records"}
BELOW_MODELS = BASE | {"workloads", "captures", "attention", "kv"}
BELOW_STUDIES = BELOW_MODELS | {"models", "instruments", "frameworks", "subjects", "laws"}
CACHES = {"integrations", "quality"}
MAY_IMPORT = {
    "errors": set(),
    "plugin_source": set(),
    "user_code": set(),
    "plugins": {"errors", "plugin_source", "user_code"},
    "code_digests": {"plugins", "user_code"},
    "commit_files": set(),
    "devices": set(),
    "installation": set(),
    "host": {"commit_files", "devices", "installation"},
    "records": {"errors", "host", "installation", "plugins"},
    "peaks": {"plugins", "records"},
    "laws": TELLING,
    "trackers": TELLING,
    "verify": TELLING | {"commit_files", "laws", "reports", "trackers"},
    "reports": TELLING | {"laws"},
    "workloads": BASE,
    "captures": BASE | {"workloads", "reports"},
    "attention": BASE | {"workloads"},
    "kv": BASE | {"workloads"},
    "models": BELOW_MODELS,
    "integrations": BELOW_MODELS | {"models", "instruments"},
    "quality": BELOW_MODELS | {"models", "integrations", "laws"},
    "instruments": BASE,
    "frameworks": {"errors", "plugins", "records", "instruments"},
    "subjects": BELOW_MODELS | {"models", "instruments", "frameworks"},
    "correctness": BELOW_MODELS | {"models", "instruments", "frameworks", "subjects"},
    "performance": BELOW_STUDIES | {"correctness"},
    "train": BELOW_MODELS - {"captures"} | {"models", "instruments", "frameworks", "correctness"},
    "studies": BELOW_STUDIES | CACHES | {"correctness", "performance", "peaks", "train"},
    "cli": {"errors", "help_pages", "plugins", "records"},
    "help_pages": {"errors"},
    "verbs": BELOW_STUDIES
    | CACHES
    | {"correctness", "peaks", "reports", "trackers", "verify", "studies"},
    "python": BELOW_STUDIES | {"correctness", "reports", "studies", "user_code", "verbs"},
    "__init__": {"captures", "python"},
    "__main__": {"cli"},
}
FRAMEWORKS = ("torch", "jax", "triton", "wandb", "ray")
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "assay" and len(parts) > 1:
                rooms.add(parts[1])
    return {
        room for room in rooms if (PACKAGE / room).exists() or (PACKAGE / f"{room}.py").exists()
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    room = room_of(path)
    assert room in MAY_IMPORT, f"a new room {room}: say in MAY_IMPORT what it may import"
    beyond = imported_rooms(path) - MAY_IMPORT[room] - {room}
    assert not beyond, f"{path} imports {beyond}, which {room} may not"


def test_the_rule_sees_an_upward_import(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(
        "def attention():\n    from assay.performance import timing\n    import assay.studies\n"
    )
    assert {"performance", "studies"} <= imported_rooms(file)


def test_no_file_is_named_for_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not [path for path in tracked_files() if path.stem in vague]


def test_no_two_test_files_have_one_name():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), "pytest takes the second for the first"


def test_files_stay_small():
    long = {str(p): n for p in MODULES if (n := len(p.read_text().splitlines())) > 700}
    assert not long, f"over 700 lines, so there is a second idea in them: {long}"


def test_import_assay_loads_no_framework():
    blocked = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in FRAMEWORKS)
    code = (
        blocked
        + "import assay, assay.cli, assay.records.run, assay.reports.build\nassay.load_records"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_importing_assay_imports_nothing_heavy():
    code = "import sys, assay; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    assert not {"numpy", "torch", "msgspec", "rich", "typer"} & set(loaded)


ALL_PLUGINS = [plugin for kind in plugins.kinds() for plugin in plugins.listing(kind).values()]


@pytest.mark.parametrize("plugin", ALL_PLUGINS, ids=lambda plugin: f"{plugin.kind}/{plugin.name}")
def test_every_plugin_has_a_docstring_and_keeps_its_contract(plugin):
    assert plugin.summary and len(plugin.summary) <= 120
    assert plugin.summary.endswith((".", "?", ":")) or "." in plugin.summary
    plugins.check(plugin)


def test_every_plugin_kind_has_files():
    assert all(plugins.listing(kind) for kind in plugins.kinds())


@pytest.mark.parametrize("name", kconfig.defconfigs())
def test_every_defconfig_loads(name):
    assert kconfig.load(kconfig.defconfig(name)).study == name


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_nothing_bulky_is_committed():
    bulky_kinds = {
        ".pt",
        ".pth",
        ".ckpt",
        ".safetensors",
        ".npz",
        ".npy",
        ".bin",
        ".parquet",
        ".gguf",
    }
    files = tracked_files()
    assert files
    assert not [path for path in files if path.suffix in bulky_kinds]
    assert not [path for path in files if path.relative_to(ROOT).parts[0] == "results"]
    assert not [path for path in files if path.stat().st_size > 512 * 1024]


def test_no_trailing_white_space():
    texts = {".py", ".md", ".toml", ".txt", ".config", ""}
    ends = []
    for path in tracked_files():
        if path.suffix in texts and path.name != "LICENSE":
            lines = path.read_text().split("\n")
            ends += [f"{path}:{n}" for n, line in enumerate(lines, 1) if line != line.rstrip()]
            assert lines[-1] == "", f"{path} does not end in a newline"
    assert not ends


def test_no_machine_path_and_no_unwanted_word():
    # Written in halves, so that this file does not find itself.
    unwanted = ["/wor" + "k/", "/roo" + "t/", "compre" + "hensive", "/opt/" + "pypi"]
    offenders = [
        f"{path}: {word}"
        for path in tracked_files()
        if path.suffix in {".py", ".md", ".toml", ".txt", ""}
        for word in unwanted
        if word in path.read_text().lower()
    ]
    assert not offenders


FOLDERS = [str(ROOT / name) for name in ("assay", "tests", "tools", "benchmarks", "campaign")]


def test_no_rule_of_ruff_is_broken():
    subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", *FOLDERS], check=True)


def test_no_two_classes_share_a_name():
    """But FlashAttention2: the autograd function of torch, and the operator of Triton."""
    files: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name != "FlashAttention2":
                files.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert not {name: where for name, where in files.items() if len(where) > 1}


@pytest.mark.slow  # black takes a core 40 s for a fresh clone
def test_formatted():
    subprocess.run([sys.executable, "-m", "black", "--check", "--quiet", *FOLDERS], check=True)
