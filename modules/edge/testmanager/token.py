"""The token of testmanager: a file that only its owner can read, made at the first start."""

import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from beehive.files.advice import advice
from beehive.files.descriptors import OwnedFd
from beehive.files.durable import replace_file
from beehive.sockets.ports import ListenError

SHORTEST: Final = 16
LONGEST: Final = 4096
"""Bounds of a token, in bytes."""

_SCHEME: Final = "Bearer "


def read_token(path: Path) -> bytes:
    """Return the token in a file; a file that does not exist is made with a random one, readable by its owner.

    Raises:
        ListenError: the file cannot be read or made, others may read it, or it holds no token.
    """
    try:
        _make(path)
        with OwnedFd(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)) as descriptor:
            mode = os.fstat(descriptor).st_mode
            text = os.read(descriptor, LONGEST + 1).strip() if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise ListenError(
            "cannot read the token of testmanager", str(path), f"{advice(error)}; see tokenFile"
        ) from error
    if not stat.S_ISREG(mode):
        raise ListenError("the token of testmanager is no file", str(path), "see tokenFile")
    if stat.S_IMODE(mode) & 0o077:
        raise ListenError("others may read the token of testmanager", str(path), f"chmod 600 {path}")
    if not SHORTEST <= len(text) <= LONGEST:
        hint = f"{SHORTEST} to {LONGEST} bytes are wanted; without the file, the next start makes one"
        raise ListenError("the file holds no token", str(path), hint)
    return text


def is_allowed(token: bytes, header: str) -> bool:
    """Return whether the header `Authorization` has the token, in constant time."""
    given = header.removeprefix(_SCHEME).strip() if header.startswith(_SCHEME) else ""
    return hmac.compare_digest(given.encode(), token)


def _make(path: Path) -> None:
    if not os.path.lexists(path):
        replace_file(path, f"{secrets.token_urlsafe(32)}\n".encode())
