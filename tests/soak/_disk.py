"""A temp directory without room: a small file system that is filled up, or a folder that is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

FILLER = "soak-filler"


def fill(how: str, folder: str) -> None:
    """Use up the blocks or the inodes of the file system that ``folder`` is.

    Only on one of the soak's own: a large one is refused.
    """
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize > 64 << 20:
        raise RuntimeError(f"{folder} is not a small file system of the soak's own")
    filler = Path(folder, FILLER)
    filler.mkdir(exist_ok=True)
    try:
        if how == "blocks":
            with (filler / "blocks").open("wb", buffering=0) as stream:
                while True:
                    stream.write(b"x" * 4096)
        for number in range(1_000_000):
            (filler / str(number)).touch()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def make_room(folder: str) -> None:
    """Give back what `fill` has used up."""
    shutil.rmtree(Path(folder, FILLER), ignore_errors=True)


@contextlib.contextmanager
def without_room(how: str, folder: str) -> Iterator[None]:
    """No room in ``folder`` for a while."""
    if how == "gone":
        away = f"{folder}-away"
        os.rename(folder, away)
        try:
            yield
        finally:
            os.rename(away, folder)
        return
    try:
        for each in ("blocks", "inodes") if how == "both" else (how,):
            fill(each, folder)
        yield
    finally:
        make_room(folder)
