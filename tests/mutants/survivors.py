"""Reads `survivors.toml`: the mutants that are known to survive, each with the reason."""

import tomllib
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "survivors.toml"


class Survivor(NamedTuple):
    """A mutant that may survive.

    Attributes:
        name: `Mutant.name`.
        change: path of the module, name of the function, and the change in words.
        reason: why no test kills it.
    """

    name: str
    change: str
    reason: str


def survivors(file: Path = FILE) -> list[Survivor]:
    """Return all entries of the file."""
    with file.open("rb") as opened:
        found = tomllib.load(opened)
    shared = [(*item, one["reason"]) for one in found.get("shared", []) for item in one["changes"].items()]
    return [*(Survivor(**one) for one in found.get("survivor", [])), *(Survivor(*one) for one in shared)]
