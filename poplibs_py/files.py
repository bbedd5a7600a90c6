"""Files that are whole or not there: what every writer of this library writes through."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file beside `path` for writing bytes; it takes the place of `path` once the block ends.

    Until then, and for good if the block raises, what was at `path` stays as it was. The new file's name is its own,
    so writers do not meet: the last one to finish wins. Links are followed, a file that is replaced hands on its
    permissions, and what is no file (a pipe, a device) is written to as it is.

    Parameters
    ----------
    path : str or path

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(folder + "/x.txt") as file:
    ...         _ = file.write(b"whole")
    ...         before = os.listdir(folder) == ["x.txt"]
    ...     before, os.listdir(folder)
    (False, ['x.txt'])
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        opened = partial.open("xb")
    except OSError as error:  # of a name that the caller never gave
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with opened as file:
            yield file
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
