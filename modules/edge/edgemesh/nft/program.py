"""The program `nft`, which the package nftables has on each distribution."""

import subprocess
from collections.abc import Sequence
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.printable import printable
from modules.edge.edgemesh.nft.ruleset import TABLE

SECONDS: Final = 30.0
"""Longest time for a transaction."""

_LONGEST_REASON: Final = 500


class NftError(Exception):
    """The rules could not be changed or read; the text has the reason."""


class NftMissingError(NftError):
    """The program is not installed."""


class _Named(msgspec.Struct):
    table: str = ""
    name: str = ""


class _Entry(msgspec.Struct):
    chain: _Named | None = None
    set: _Named | None = None


class _Listing(msgspec.Struct):
    nftables: list[_Entry] = []


class Nft:
    """A runner of `nft`. Blocks.

    Args:
        prefix: words before the program, for example to enter a network namespace.
    """

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._command = [*prefix, "nft"]

    def apply(self, transaction: str) -> None:
        """Apply a transaction: all of it or nothing.

        Raises:
            NftError: it was refused.
        """
        self._run(["-f", "-"], transaction)

    def check(self, transaction: str) -> None:
        """Ask the kernel whether it would take a transaction.

        Raises:
            NftError: it would not, this user may not, or there is no program.
        """
        self._run(["-c", "-f", "-"], transaction)

    def names(self, family: str) -> list[str]:
        """Return the names of the chains and sets of the table. Raises NftError."""
        found: list[str] = []
        for what in ("chains", "sets"):
            text = self._run(["-j", "-t", "list", what, family], "")
            try:
                entries = decode_json(text, _Listing).nftables
            except (msgspec.DecodeError, UnicodeError) as error:
                raise NftError(f"the list of {what} cannot be read: {error}") from error
            named = [each.chain or each.set for each in entries]
            found.extend(each.name for each in named if each is not None and each.table == TABLE)
        return found

    def _run(self, arguments: list[str], text: str) -> bytes:
        command = [*self._command, *arguments]
        try:
            ended = subprocess.run(command, input=text.encode(), capture_output=True, timeout=SECONDS, check=False)
        except FileNotFoundError:
            raise NftMissingError("the program nft is not installed: apt-get install nftables") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NftError(str(error)) from error
        if ended.returncode:
            lines = ended.stderr.decode(errors="replace").splitlines()
            reason = next(
                (line for line in lines if "Error" in line), lines[0] if lines else f"exit {ended.returncode}"
            )
            raise NftError(printable(reason[:_LONGEST_REASON]))
        return ended.stdout
