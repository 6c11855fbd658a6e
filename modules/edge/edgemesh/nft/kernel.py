"""The tables of the node in the kernel: one transaction for each change."""

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from modules.edge.edgemesh.nft import ruleset
from modules.edge.edgemesh.nft.program import NftError
from modules.edge.edgemesh.nft.ruleset import FAMILIES, Family, KnownRules, Ruleset
from modules.edge.edgemesh.tables import PortTable

_log = logging.getLogger(__name__)

_NOTHING: Final = Ruleset({}, {}, {})


class Program(Protocol):
    """A program that changes and reads the kernel's rules; `nft.program.Nft` implements it. All functions raise
    NftError.
    """

    def apply(self, transaction: str) -> None:
        """Apply a transaction: all of it or nothing."""

    def check(self, transaction: str) -> None:
        """Ask whether the kernel would take a transaction."""

    def names(self, family: str) -> list[str]:
        """Return the names of the chains and sets of the table."""


class KernelRules:
    """The rules in the kernel, as this process has made them. Blocks; one thread at a time uses it.

    Args:
        nft: the program.
        sees_bridges: returns whether the kernel translates packets between ports of a bridge, for a family's name.
    """

    def __init__(self, nft: Program, sees_bridges: Callable[[str], bool] | None = None) -> None:
        self._nft = nft
        self._sees_bridges = sees_bridges or bridges_are_seen
        self._families: tuple[Family, ...] = FAMILIES
        self._known: dict[Family, KnownRules] = {}
        """The kernel's rules; none before the first transaction, and after a failed one."""
        self._gone: dict[Family, set[str]] = {}
        """Chains and sets that are used no more and are still there."""
        self._may_have_more = True
        """Whether the kernel may have more of these: an earlier process has left them, or a failed transaction."""

    def check(self) -> None:
        """Ask the kernel whether it takes such tables. Without IPv6 in the kernel only IPv4 is used.

        Raises:
            NftError: it takes none, this user may not change rules, or `nft` is not installed.
        """
        self._nft.check(ruleset.whole(ruleset.IPV4, _NOTHING))
        try:
            self._nft.check(ruleset.whole(ruleset.IPV6, _NOTHING))
        except NftError as error:
            _log.info("the kernel has no NAT of IPv6, and Services are served by IPv4 only: %s", error)
            self._families = (ruleset.IPV4,)

    def apply(self, ports: Collection[PortTable], pods: Iterable[str]) -> None:
        """Bring the rules to the tables, whatever the kernel has.

        Raises:
            NftError: the kernel refuses them, and keeps what it has.
        """
        addresses = sorted(pods)
        wanted = {family: ruleset.ruleset(family, ports, addresses) for family in self._families}
        lines: list[str] = []
        for family, rules in wanted.items():
            known = self._known.get(family)
            if known is None:
                self._may_have_more = True
                sees_bridges = self._sees_bridges(family.name)
                lines.append(ruleset.whole(family, rules, sees_bridges=sees_bridges))
                continue
            lines.extend(ruleset.changes(family, known, rules))
        if not lines:
            return
        try:
            self._nft.apply("\n".join(lines) + "\n")
        except NftError:
            self._known.clear()
            raise
        for family, rules in wanted.items():
            before = ruleset.names(self._known[family]) if family in self._known else frozenset()
            self._gone.setdefault(family, set()).update(before - ruleset.names(rules))
        self._known = {family: rules.remembered() for family, rules in wanted.items()}

    def forget(self) -> None:
        """Make the whole tables with the next change: somebody else has changed them."""
        self._known.clear()

    def delete_unused(self) -> None:
        """Delete the chains and sets that are used no more, at least a second after they were. Raises NftError."""
        lines: list[str] = []
        for family, rules in self._known.items():
            if self._may_have_more:
                self._gone[family] = set(filter(ruleset.is_temporary, self._nft.names(family.name)))
            lines.extend(ruleset.unused(family, self._gone.get(family, ()), rules))
        self._gone.clear()
        self._may_have_more = True  # if it fails
        if lines:
            self._nft.apply("\n".join(lines) + "\n")
        self._may_have_more = False

    def is_whole(self) -> bool:
        """Return whether the kernel still has the tables. Raises NftError."""
        return all("dispatch" in self._nft.names(family.name) for family in self._families)


def bridges_are_seen(family: str) -> bool:
    """Return whether the kernel translates packets between ports of a bridge: the module br_netfilter, switched on."""
    with suppress(OSError):
        return Path(f"/proc/sys/net/bridge/bridge-nf-call-{family}tables").read_text().strip() == "1"
    return False
