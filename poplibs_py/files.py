"""Files that are whole or not there, and archives of arrays that hold what they claim to hold."""

from __future__ import annotations

import io
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from .errors import bad_argument, bad_type

__all__ = ["ArrayFile", "file_path", "replacing"]

Array = np.ndarray[Any, Any]

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def file_path(path: object, endings: Sequence[str] = ()) -> Path:
    """Return the path of a file whose name ends in one of `endings`, or raise.

    Parameters
    ----------
    path : str or path
    endings : sequence of str, optional
        In lower case; those of `path` may be in any. By default any name will do.

    Examples
    --------
    >>> file_path("pattern.smtx", (".npz", ".smtx")).name
    'pattern.smtx'
    """
    if not isinstance(path, (str, os.PathLike)):  # a number would be taken for an open file
        raise bad_type("path", path, "a path")
    try:
        found = Path(path)
        allowed = b"\0" not in os.fsencode(found)
    except ValueError:
        allowed = False
    if not allowed:
        raise bad_argument("path", path, "a name that files may have (without null bytes)")
    if endings and not found.name.lower().endswith(tuple(endings)):
        raise bad_argument("path", str(path), f"a name that ends in {', '.join(endings)}")
    return found


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
    target = Path(os.path.realpath(file_path(path)))
    if target.exists() and not target.is_file():
        whole = io.BytesIO()  # an archive goes back and forth in its file
        yield whole
        with target.open("wb") as file:
            file.write(whole.getbuffer())
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


class ArrayFile(Mapping[str, Array]):
    """The arrays of a ``.npz`` file, read when they are asked for, by name.

    An array whose header claims another size than the file holds, or Python objects, is refused before any memory is
    taken for it; so is a compressed one, whose size has nothing to do with the file's, unless that is allowed.

    Parameters
    ----------
    file : binary file
    compressed : bool, optional
        Whether arrays may be compressed: the caller then asks for memory by `nbytes`.

    Raises
    ------
    KeyError, ValueError, OSError, zipfile.BadZipFile, zlib.error
        For damaged files, from any method.
    """

    def __init__(self, file: BinaryIO, compressed: bool = False) -> None:
        self._archive, self._compressed = ZipFile(file), compressed
        self._members = {info.filename.removesuffix(".npy"): info for info in self._archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, with their headers."""
        return sum(info.file_size for info in self._members.values())

    def __getitem__(self, name: str) -> Array:
        if name not in self._members:
            raise KeyError(f"no array {name!r} in it")
        info = self._members[name]
        if info.compress_type != ZIP_STORED and not self._compressed:
            raise ValueError(f"array {name!r} is compressed")
        self._check(name, info)
        with self._archive.open(info) as member:
            array: Array = np.lib.format.read_array(member, allow_pickle=False)
        return array

    def _check(self, name: str, info: ZipInfo) -> None:
        with self._archive.open(info) as member:
            version = np.lib.format.read_magic(member)
            if version not in _HEADERS:
                raise ValueError(f"array {name!r} is of version {version}")
            shape, _, dtype = _HEADERS[version](member)
            if dtype.hasobject:
                raise ValueError(f"array {name!r} holds Python objects")
            if min(shape, default=0) < 0 or member.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
                raise ValueError(f"array {name!r} claims a shape of {shape}, which is not what it holds")
