"""A file of the results of mutants: a run continues where an earlier one ended."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from tests.mutants.operators import Mutant
from tests.mutants.runner import MutantResult
from tests.mutants.selection import ROOT


class Results:
    """Results by mutant, also of earlier runs. A result counts until the mutant's module changes.

    Args:
        file: JSON lines, the last one of a mutant counts; it is made if it does not exist. None keeps no results.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._hashes: dict[str, str] = {}
        self._found: dict[tuple[str, str], MutantResult] = {}
        for line in file.read_text().splitlines() if file is not None and file.exists() else ():
            with suppress(ValueError):  # the last line of a run that was killed
                name, module, result = json.loads(line)
                self._found[name, module] = MutantResult(result)

    def get(self, mutant: Mutant) -> MutantResult | None:
        """Return the result of a mutant, or None when there is none of the module as it is."""
        return self._found.get((mutant.name, self._hash(mutant.path)))

    def put(self, mutant: Mutant, result: MutantResult) -> None:
        """Keep a result."""
        key = mutant.name, self._hash(mutant.path)
        self._found[key] = result
        if self._file is not None:
            with self._file.open("a") as opened:
                opened.write(json.dumps([*key, result]) + "\n")

    def _hash(self, path: str) -> str:
        if path not in self._hashes:
            self._hashes[path] = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:10]
        return self._hashes[path]
