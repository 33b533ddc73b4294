"""The git commands that check out every upstream at its commit: `python gallery/fetch.py | sh`."""

import os
from pathlib import Path

from assay import plugins

HERE = Path(__file__).parent


def commands(folder: Path) -> list[str]:
    """A command for each repository: its commit alone, without history, below `folder`."""
    listed = plugins.listing("sequence", [HERE]).values()
    stated = [p.literals["UPSTREAM"] for p in listed if "UPSTREAM" in p.literals]
    commits = {s["repository"]: s["commit"] for s in stated if "repository" in s}
    return [
        f"git init -q {folder / name} && git -C {folder / name} fetch -q --depth 1 "
        f"https://github.com/{name} {commit} && git -C {folder / name} checkout -q FETCH_HEAD"
        for name, commit in sorted(commits.items())
    ]


if __name__ == "__main__":
    folder = Path(os.environ.get("ASSAY_UPSTREAMS") or HERE / "upstreams").absolute()
    print("\n".join(commands(folder)))
