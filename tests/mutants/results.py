"""A file of the results of mutants: a run continues where an earlier one ended."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from tests.mutants.operators import Mutant
from tests.mutants.planted import SimulatedBug
from tests.mutants.runner import MutantResult, Tier, Verdict
from tests.mutants.selection import ROOT


class Results:
    """Results by mutant, also of earlier runs. A result counts until the mutant's module changes.

    Args:
        file: JSON lines with the mutant's name, the hash of its module, the result, the test that killed it, the
            command that runs that test, and the mutant's place. The last one of a mutant counts. The file is made if it
            does not exist. None keeps no results.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._hashes: dict[str, str] = {}
        self._found: dict[tuple[str, str], Verdict] = {}
        for line in file.read_text().splitlines() if file is not None and file.exists() else ():
            with suppress(ValueError):  # the last line of a run that was killed
                name, module, result, test, tier, _ = json.loads(line)
                self._found[name, module] = Verdict(MutantResult(result), test, Tier(tier) if tier else None)

    def get(self, mutant: Mutant | SimulatedBug) -> Verdict | None:
        """Return the result of a mutant, or None when there is none of the module as it is."""
        return self._found.get((mutant.name, self._hash(mutant.path)))

    def put(self, mutant: Mutant | SimulatedBug, verdict: Verdict) -> None:
        """Keep a result."""
        key = mutant.name, self._hash(mutant.path)
        self._found[key] = verdict
        if self._file is not None:
            place = f"{mutant.path}:{mutant.line}" if isinstance(mutant, Mutant) else mutant.path
            with self._file.open("a") as opened:
                opened.write(json.dumps([*key, *verdict, place]) + "\n")

    def _hash(self, path: str) -> str:
        if path not in self._hashes:
            self._hashes[path] = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:10]
        return self._hashes[path]
