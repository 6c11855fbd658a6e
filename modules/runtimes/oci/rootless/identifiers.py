"""Sub-ids: users and groups of the machine that belong to one user, from /etc/subuid and /etc/subgid (subuid(5))."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from modules.runtimes.engine.errors import StateDirectoryError

SUBUID: Final = Path("/etc/subuid")
SUBGID: Final = Path("/etc/subgid")
NEEDED: Final = 65_536
"""What one user gets by useradd(8); images have users up to 65534."""

_FIRST: Final = 100_000
_LARGEST: Final = (1 << 32) - 2
_MOST_BYTES: Final = 1 << 20


class SubIds(NamedTuple):
    """A line of one of the files."""

    owner: str
    start: int
    number: int

    @property
    def end(self) -> int:
        """The first id after it."""
        return self.start + self.number


class Account(NamedTuple):
    """A user; lines of the files name it by its name or its number."""

    name: str
    number: int


def sub_ids(account: Account, path: Path) -> SubIds:
    """Return the first range of a user that is large enough.

    Raises:
        StateDirectoryError: there is none, or somebody else has a part of it.
    """
    ranges = list(_ranges(path))
    names = (account.name, str(account.number))
    found = next((each for each in ranges if each.owner in names and each.number >= NEEDED), None)
    attempt = "isolate containers without root"
    if found is None:
        raise StateDirectoryError(attempt, f"{account.name} has no {NEEDED} sub-ids in {path}", _remedy(account.name))
    for other in ranges:
        if other.owner not in names and other.start < found.end and found.start < other.end:
            reason = f"the sub-ids {found.start}-{found.end - 1} of {account.name} are {other.owner}'s, too, in {path}"
            raise StateDirectoryError(attempt, reason, "give one of the two other sub-ids (usermod --add-subuids)")
    return found


def _remedy(name: str) -> str:
    start = max((each.end for path in (SUBUID, SUBGID) for each in _ranges(path)), default=0)
    wanted = f"{max(start, _FIRST)}-{max(start, _FIRST) + NEEDED - 1}"
    return f"usermod --add-subuids {wanted} --add-subgids {wanted} {name}"


def _ranges(path: Path) -> Iterator[SubIds]:
    try:
        with path.open(errors="replace") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        return
    for line in lines:
        owner, _, numbers = line.strip().partition(":")
        start, _, count = numbers.partition(":")
        if owner and start.isdecimal() and count.isdecimal() and int(start) + int(count) <= _LARGEST:
            yield SubIds(owner, int(start), int(count))
