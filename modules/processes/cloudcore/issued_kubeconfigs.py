"""The certificates that `cloudcore kubeconfig` has issued: a file for each beside the authority, named by its serial
number. The key is not there.
"""

from pathlib import Path
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.durable import replace_file
from beehive.files.reading import read_file

DIRECTORY: Final = "administrators"
_LARGEST: Final = 4096
_MOST: Final = 10_000


class IssuedKubeconfig(msgspec.Struct, frozen=True):
    """The certificate of an administrator. Times are seconds since the epoch."""

    serial: str
    user: str
    issued_at: float
    expires_at: float


def remember(tls_dir: Path, issued: IssuedKubeconfig) -> None:
    """Store a certificate that is about to be given away. Raise OSError if it cannot be stored."""
    directory = tls_dir / DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    replace_file(directory / f"{issued.serial}.json", msgspec.json.encode(issued), 0o600)


def issued(tls_dir: Path) -> list[IssuedKubeconfig]:
    """Return the certificates that were issued, the oldest first; files that cannot be read are left out."""
    found = []
    directory = tls_dir / DIRECTORY
    for path in sorted(directory.glob("*.json"))[:_MOST] if directory.is_dir() else ():
        try:
            found.append(decode_json(read_file(path, _LARGEST), IssuedKubeconfig))
        except (OSError, ValueError, msgspec.MsgspecError):
            continue
    return sorted(found, key=lambda each: each.issued_at)


def serials_of(tls_dir: Path, user: str) -> tuple[str, ...]:
    """Return the serial numbers of the newest certificates of a user: all of the newest one's second."""
    mine = [each for each in issued(tls_dir) if each.user == user]
    return tuple(each.serial for each in mine if int(each.issued_at) == int(mine[-1].issued_at))
