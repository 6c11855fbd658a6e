"""The bugs of `planted.toml`: others have put them into the product, and a test keeps each of them out."""

import tomllib
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "planted.toml"


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
