"""What pyproject.toml cannot say: a wheel carries the files at the checkout's top that assay reads.

assay/installation.py finds them there. The study `gallery` runs files of the checkout and stays.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = ("Kconfig", "pyproject.toml", "defconfigs/[!.]*")
LEFT = Path("defconfigs/gallery")


class BuildWithData(build_py):
    """Copies the package, then what it reads at run time."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for file in (path for pattern in CARRIED for path in Path().glob(pattern)):
            if file != LEFT:
                target = Path(self.build_lib, "assay", "_data", file)
                self.mkpath(str(target.parent))
                self.copy_file(str(file), str(target))


setup(cmdclass={"build_py": BuildWithData})
