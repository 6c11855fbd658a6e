"""Bugs that others have put into the product: of `planted.toml`, where a test keeps each out, and the simulation's."""

import json
import tempfile
import tomllib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests.mutants.children import run_child

FILE = Path(__file__).parent / "planted.toml"
_IMPORTS = 60.0
"""Seconds for the import of the product, on a busy machine."""


class PlantedBug(NamedTuple):
    """A bug as a change of the source.

    Attributes:
        bug: what it is.
        path: the module.
        before: a text that is in the module once.
        after: the text in its place.
        test: the test that fails with it.
    """

    bug: str
    path: str
    before: str
    after: str
    test: str

    def planted_in(self, source: str) -> str:
        """Return the source with the bug.

        Raises:
            ValueError: the text that it replaces is not there once.
        """
        if source.count(self.before) != 1:
            raise ValueError(f"{self.path} has {source.count(self.before)} times: {self.before}")
        return source.replace(self.before, self.after)


def planted_bugs(file: Path = FILE) -> list[PlantedBug]:
    """Return all entries of the file."""
    with file.open("rb") as opened:
        return [PlantedBug(**one) for one in tomllib.load(opened)["planted"]]


class SimulatedBug(NamedTuple):
    """A bug that plans of the simulation are to find; it is made by patching the product.

    Attributes:
        path: a module that it patches.
        name: of the bug, and of the mutant.
    """

    path: str
    name: str

    def planted(self) -> AbstractContextManager[None]:
        """Return the context that has the bug. It imports the product."""
        from tests.simulation.search import BUGS  # noqa: PLC0415

        return BUGS[self.name]()


def simulated_bugs() -> list[SimulatedBug]:
    """Return the simulation's bugs, once for each module that they patch. A child imports the product for it."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "bugs.json"
        run_child(lambda: _write_simulated(file), _IMPORTS)
        return [SimulatedBug(*one) for one in json.loads(file.read_text())]


def _write_simulated(file: Path) -> int:
    from tests.simulation.search import BUGS  # noqa: PLC0415

    found: list[tuple[str, str]] = []
    replace = patch.object
    for name, plant in BUGS.items():
        targets: list[object] = []

        def noting(target: object, *args: object, noted: list[object] = targets) -> object:
            noted.append(target)
            return replace(target, *args)  # type: ignore[call-overload]

        with patch.object(patch, "object", noting), plant():
            pass
        modules = {str(getattr(target, "__module__", None) or getattr(target, "__name__", "")) for target in targets}
        found += [(f"{module.replace('.', '/')}.py", name) for module in sorted(modules)]
    file.write_text(json.dumps(found))
    return 0
