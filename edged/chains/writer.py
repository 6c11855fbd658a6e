"""ChainWriter: writes the chains to their file, on a thread of its own."""

import msgspec

from beehive import Actor
from edged.chains.chains import Chains
from edged.chains.file import ChainFile


class WriteChains(msgspec.Struct, frozen=True):
    """Write the steps that the file lacks."""


class ChainWriter(Actor):
    """The actor that writes the changed chains together when it is asked to, and the rest when it stops.

    Args:
        chains: of the pods.
        file: theirs.
    """

    def __init__(self, chains: Chains, file: ChainFile) -> None:
        super().__init__()
        self._chains = chains
        self._file = file

    def on_receive(self, message: object) -> None:
        """Write the steps that the file lacks."""
        if isinstance(message, WriteChains):
            self._write()

    def on_stop(self) -> None:
        """Write the rest."""
        self._write()

    def _write(self) -> None:
        lines = self._chains.unwritten()
        if lines and not self._file.append(lines):
            self._file.replace(self._chains.everything())
