"""Puts restored files in the place of the present ones: all of them or none."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import gmtime, strftime
from typing import NamedTuple

from beehive.files.advice import advice
from beehive.files.durable import make_directories, put_in_place
from beehive.files.opening import opener_with
from modules.processes.common.backup.archive import check_room
from modules.processes.common.backup.errors import BackupError


class Replacement(NamedTuple):
    """A file that is to be in a place."""

    new: Path | None
    """The file; None if there is to be none (SQLite's files beside a database)."""
    target: Path
    """The place."""
    mode: int = 0o600
    hidden: bool = False
    """Whether the present file is kept under a name with a dot, where every other file of the directory is read."""

    @property
    def staged(self) -> Path:
        """The path of the new file before its rename, in the same directory: a rename between file systems is not
        possible.
        """
        return self.target.with_name(f".{self.target.name}.restored")

    def kept(self, suffix: str) -> Path:
        """Return the name under which the present file is kept."""
        return self.target.with_name(f"{'.' if self.hidden else ''}{self.target.name}{suffix}")


def replacing_database(new: Path, target: Path) -> list[Replacement]:
    """Return the replacements that put an SQLite file in a place, without the files beside the former one."""
    return [
        Replacement(new, target),
        *(Replacement(None, target.with_name(target.name + end)) for end in ("-wal", "-shm", "-journal")),
    ]


def check_places(replacements: Sequence[Replacement]) -> None:
    """Check that each file has a place of its own, and that there is room for all.

    Raises:
        BackupError: there is not; nothing was changed.
    """
    coming = [(each.new, each.target) for each in replacements if each.new is not None]
    targets = [target for _, target in coming]
    if len(set(targets)) != len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise BackupError("two files of the backup are to be in one place", str(twice), "its configuration says so")
    sizes: Counter[int] = Counter()
    directories: dict[int, Path] = {}
    for new, target in coming:
        there = next(each for each in target.absolute().parents if each.is_dir())
        device = there.stat().st_dev
        directories[device] = there
        sizes[device] += new.stat().st_size
    for device, size in sizes.items():
        check_room(directories[device], size)


def suffix_for(replacements: Sequence[Replacement], now: float) -> str:
    """Return the suffix under which a restore keeps the present files: of now, or of the first millisecond after it
    whose names are free.
    """
    suffixes = map(_suffix_of, count(int(now * 1000)))
    return next(one for one in suffixes if not any(os.path.lexists(each.kept(one)) for each in replacements))


def replace_all(replacements: Sequence[Replacement], suffix: str) -> list[Path]:
    """Put all files in place, each durably, and return the names under which present ones are kept: with `suffix`.

    After an error everything is as before. A power cut in between leaves some files old and some new: restore again.

    Raises:
        BackupError: a file cannot be put in place.
    """
    coming = [each for each in replacements if each.new is not None]
    done: list[tuple[Path, Path | None]] = []
    try:
        for each in coming:
            _stage(each)
        for each in replacements:
            present = os.path.lexists(each.target)
            done.append((each.target, each.kept(suffix) if present else None))
            if present:
                put_in_place(each.target, each.kept(suffix))
        for each in coming:
            put_in_place(each.staged, each.target)
    except OSError as error:
        _undo(done)
        raise BackupError(
            "cannot restore", str(error.filename or ""), f"{advice(error)}; nothing was changed"
        ) from error
    except BaseException:
        _undo(done)
        raise
    finally:
        for each in coming:
            with suppress(OSError):
                each.staged.unlink(missing_ok=True)
    return [kept for _, kept in done if kept is not None]


def _stage(each: Replacement) -> None:
    """Copy the file beside its place."""
    assert each.new is not None, "asked by the caller"  # noqa: S101 - for the type
    make_directories(each.target.parent, 0o750)
    each.staged.unlink(missing_ok=True)
    with open(each.staged, "xb", opener=opener_with(each.mode)) as file, each.new.open("rb") as content:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fchmod(file.fileno(), each.mode)
        os.fsync(file.fileno())


def _suffix_of(millis: int) -> str:
    return f"{strftime('.before-restore-%Y%m%dT%H%M%S', gmtime(millis // 1000))}.{millis % 1000:03}Z"


def _undo(done: Sequence[tuple[Path, Path | None]]) -> None:
    for target, kept in reversed(done):
        with suppress(OSError):
            if kept is None or os.path.lexists(kept):
                target.unlink(missing_ok=True)
            if kept is not None:
                put_in_place(kept, target)
