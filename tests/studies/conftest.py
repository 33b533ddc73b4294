"""The plugins that Kconfig's defaults and the defconfigs name, whatever else the package has."""

from pathlib import Path

import pytest

from assay import plugins

NEEDED = {
    "stages": ["host", "check", "bench"],
    "sequence": ["eager", "sdpa"],
    "probes": ["accuracy"],
    "engines": ["local"],
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> tuple[Path, ...]:
    """A user's plugin folder with a stand-in for each needed plugin that the package lacks."""
    root = tmp_path_factory.mktemp("plugins")
    for kind, names in NEEDED.items():
        (root / kind).mkdir()
        for name in set(names) - set(plugins.listing(kind)):
            (root / kind / f"{name}.py").write_text('"""A stand-in."""\n')
    return (root,)
