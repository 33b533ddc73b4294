"""A file in which cells write that they begin: what ran is then known without asking the log."""

import os


def begin(name: str) -> None:
    """Add `name` and this process to the diary that ASSAY_TEST_DIARY names, where it does."""
    path = os.environ.get("ASSAY_TEST_DIARY")
    if path:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, f"{name} {os.getpid()}\n".encode())
        os.close(file)
