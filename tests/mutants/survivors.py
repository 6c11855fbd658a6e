"""Reads `survivors.toml`: the mutants that are known to survive, each with the reason.

`python -m tests.mutants.survivors` checks that they are mutants: a name changes with path, function and statement.
"""

import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.mutants.operators import existing
from tests.mutants.selection import ROOT
from tests.support.collector import without_collections
from tests.support.saying import say

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


def without_mutants(listed: Iterable[Survivor], root: Path = ROOT) -> list[Survivor]:
    """Return the entries that are no mutants of the product as it is, or whose file is not there."""
    asked: dict[str, dict[tuple[str, str], Survivor]] = {}
    for survivor in listed:
        path, _, function = survivor.change.partition(":")[0].partition(" ")
        asked.setdefault(path, {})[function, survivor.name] = survivor
    found = list[Survivor]()
    with without_collections():  # trees only grow
        for path, entries in asked.items():
            made = existing(path, (root / path).read_text(), entries) if (root / path).is_file() else set()
            found += [survivor for each, survivor in entries.items() if each not in made]
    return found


if __name__ == "__main__":
    stale = without_mutants(survivors())
    for each in stale:
        say(f"{FILE.name}: {each.name} is no mutant: {each.change}")
    sys.exit(bool(stale))
