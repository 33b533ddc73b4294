"""Durable files: written wholly or not at all, and locks that one process holds at a time."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from assay.errors import BadInput, CannotRunHere

_MOST_PARTS = 1024  # that the system takes in one call
_POLL_S = 0.01
_TRIES = 50
_FULL = {
    errno.ENOSPC: "the disk is full; free some space and resume: nothing written is lost",
    errno.EDQUOT: "the quota is used up; free some space and resume",
    errno.EFBIG: "the file may not grow further (ulimit -f); raise that limit and resume",
}
_WRONG_PLACE = {
    errno.EROFS: "the disk is read-only; give a writable folder with --out DIR",
    errno.EACCES: "permission is denied; give a writable folder with --out DIR",
    errno.EPERM: "permission is denied; give a writable folder with --out DIR",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.EEXIST: "a file of that name is in the way",
    errno.ELOOP: "it is a symbolic link, which is not followed; remove it",
}
_MOST_CAUSES = 20  # of an error, which a user's code may have made a circle


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, durably: readers see the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with explained(path):
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def require_utf8(path: Path) -> Path:
    """Refuse a path that neither JSON nor SQL can name."""
    try:
        str(path.resolve()).encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"the path {str(path)!a} is not UTF-8; rename its folder") from error
    return path


def make_folder(path: Path) -> Path:
    """Create `path` and its parents; an existing folder is fine."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, parts: Sequence[memoryview]) -> None:
    """Write the bytes of `parts`, one after the other, however many the system takes at a time."""
    left = list(parts)
    while left:
        count = os.writev(descriptor, left[:_MOST_PARTS])
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if left:
            left[0] = left[0][count:]


def is_full(error: BaseException | None) -> bool:
    """True for an error that comes from a full disk, a used-up quota or a limit to files."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            return False
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if os.strerror(errno.ENOSPC) in str(error):  # as a compiler's process says it
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the disk's errors about `path` into BadInput that says what to do."""
    try:
        yield
    except OSError as error:
        known = {**_FULL, **_WRONG_PLACE}
        advice = known.get(error.errno or 0, error.strerror or str(error))
        raise BadInput(f"cannot write {path}: {advice}") from error


def in_words(error: OSError) -> str:
    """An error of the system whose place nobody explained: of a full disk, what to do."""
    advice = _FULL.get(error.errno or 0)
    return f"cannot write {error.filename or 'a file'}: {advice}" if advice else str(error)


@contextmanager
def waiting_for_others(path: Path, patience_s: float) -> Iterator[None]:
    """Hold a lock on the file `path` as a process: forks of it do not hold it too.

    Waits for a process that holds it, and raises CannotRunHere where that takes too long.
    """
    with explained(path):
        descriptor = _open_lock(path)
    try:
        deadline = time.monotonic() + patience_s
        while not _locks_as_process(descriptor):
            if time.monotonic() > deadline:
                raise CannotRunHere(
                    f"another process still holds {path} after {patience_s:g} s; end it and resume"
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """True while some process holds `only_process` of a path; nothing is changed by asking."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        why = "a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise BadInput(f"cannot read {path}: {why}; remove it, for no run made it so") from error
    return False


def _open_lock(path: Path) -> int:
    """A link is not followed: it would have a file of somebody else's overwritten."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)


def _locks_soon(descriptor: int) -> bool:
    """Lock a file; somebody who asks `is_locked` is in the way for an instant."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_POLL_S)
        else:
            return True
    return False


def _locks_as_process(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextmanager
def only_process(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on the file `path`; yields False where another process holds it.

    The kernel drops the lock when its holder ends, however it ends.
    """
    with ExitStack() as stack:
        with explained(path):  # and nothing else: what the body does is not about this file
            # Without a buffer, which would be written once more, and fail again, when it is closed.
            file = stack.enter_context(open(_open_lock(path), "r+b", buffering=0))
        if not _locks_soon(file.fileno()):
            yield False
            return
        with explained(path):
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        yield True
