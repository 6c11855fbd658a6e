"""Damages files as a loss of power, a failing disk or a person does."""

import os
import random
from collections.abc import Callable
from pathlib import Path

Spoil = Callable[[Path], None]


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _truncated(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _random(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(4096))  # noqa: S311 - the same in every run


def _directory(path: Path) -> None:
    path.unlink()
    (path / "inner").mkdir(parents=True)
    (path / "inner" / "file").touch()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere/at all")


def _cycle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _gone(path: Path) -> None:
    path.unlink()


SPOILT: dict[str, Spoil] = {
    "empty": _empty,
    "truncated": _truncated,
    "random bytes": _random,
    "a directory": _directory,
    "a pipe": _pipe,
    "a dangling link": _dangling,
    "a link to itself": _cycle,
    "gone": _gone,
}
"""Kinds of damage by name; each is applied to an existing file."""
