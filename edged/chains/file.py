"""The file of the chains: a line of JSON for each change of a chain. The newest line of a pod counts."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.damaged import set_aside
from beehive.files.descriptors import OwnedFd
from beehive.files.durable import OWNER_ONLY, replace_file
from beehive.files.reading import read_file
from edged.chains.chains import MOST_PODS
from edged.chains.model import MOST_STEPS, Chain

NAME: Final = "chains"
"""Name of the file, below edged's root directory."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""The file is rewritten when it has this size; the chains of all pods have half of it at most."""

_log = logging.getLogger(__name__)


class ChainFile:
    """The file, to be read and written by one thread at a time. No method raises: nothing depends on the chains.

    A power cut leaves a last line that is not whole, which is skipped. A file that is damaged otherwise is set aside,
    and what can be read of it is kept.

    Args:
        root: edged's root directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / NAME
        self._size: int | None = None
        """Bytes of the file; None if it has to be rewritten."""
        self._is_failing = False

    def read(self) -> list[Chain]:
        """Return the chains, the last changed at the end."""
        try:
            *lines, _unfinished = read_file(self._path, 2 * MOST_BYTES).split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            set_aside(self._path, self._root, str(error))
            return []
        chains: dict[str, Chain] = {}
        problem = ""
        for line in lines:
            try:
                chain = decode_json(line, Chain)
            except (msgspec.MsgspecError, UnicodeError) as error:
                problem = str(error)
                continue
            chains.pop(chain.uid, None)
            if chain.steps:
                del chain.steps[MOST_STEPS:]
                chains[chain.uid] = chain
        if problem:
            set_aside(self._path, self._root, problem)
        return list(chains.values())[-MOST_PODS:]

    def append(self, lines: Sequence[bytes]) -> bool:
        """Append lines durably, and return whether that succeeded; also False if the file has to be rewritten."""
        content = b"".join(line + b"\n" for line in lines)
        if self._size is None or self._size + len(content) > MOST_BYTES:
            return False
        try:
            self._append(content)
        except OSError as error:
            self._failed(error)
            return False
        self._size += len(content)
        return True

    def replace(self, lines: Sequence[bytes]) -> None:
        """Rewrite the file."""
        content = b"".join(line + b"\n" for line in lines)
        try:
            replace_file(self._path, content)
        except OSError as error:
            self._failed(error)
            return
        self._size, self._is_failing = len(content), False

    def _append(self, content: bytes) -> None:
        with OwnedFd(
            os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
        ) as descriptor:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fdatasync(descriptor)

    def _failed(self, error: OSError) -> None:
        self._size = None
        if not self._is_failing:
            _log.warning("the steps of pods are not kept on the disk: %s", error)
        self._is_failing = True
