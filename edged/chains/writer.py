"""ChainWriter: writes the chains to their file, on a thread of its own."""

import msgspec

from beehive import Actor
from edged.chains.chains import Chains
from edged.chains.file import ChainFile


class WriteChains(msgspec.Struct, frozen=True):
    """Write the steps that the file lacks."""


class ChainWriter(Actor):
    """Writes the changed chains some seconds after their first change, together, and the rest when it stops.

    Args:
        chains: of the pods.
        file: theirs.
    """

    def __init__(self, chains: Chains, file: ChainFile) -> None:
        super().__init__()
        self._chains = chains
        self._file = file

    def on_start(self) -> None:
        """Begin to write when chains change."""
        self._chains.wake = self._wake

    def on_receive(self, message: object) -> None:
        """Write the steps that the file lacks."""
        if isinstance(message, WriteChains):
            self._write()

    def on_stop(self) -> None:
        """Write the rest."""
        self._write()

    def _wake(self, seconds: float) -> None:
        self.clock.after(seconds, self._write_soon)

    def _write_soon(self) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(WriteChains())

    def _write(self) -> None:
        lines = self._chains.unwritten()
        if lines and not self._file.append(lines):
            self._file.replace(self._chains.everything())
