"""The machine's resolv.conf, for pods on its network and for pods with one of their own."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from edged.pods.config.dns import ResolvConf, for_own_networks, parse_resolv_conf

UPLINKS: Final = (Path("/run/systemd/resolve/resolv.conf"), Path("/run/NetworkManager/no-stub-resolv.conf"))
"""The files where systemd-resolved and NetworkManager list the servers behind their own one."""


class HostDns(Struct, frozen=True, gc=False):
    """What pods get of the machine's resolv.conf."""

    host: ResolvConf = ResolvConf()
    """On its network."""
    own: ResolvConf = ResolvConf()
    """With a network of their own."""

    @property
    def unreachable(self) -> tuple[str, ...]:
        """The machine's servers, if pods with a network of their own reach none."""
        return () if self.own.servers else self.host.servers


def read_host_dns(path: Path, uplinks: Sequence[Path] | None = None) -> HostDns:
    """Read the machine's resolv.conf; a missing one is empty.

    Args:
        path: of the file.
        uplinks: files with the servers behind its own, `UPLINKS` by default; its neighbour `resolv.conf`, as of
            systemd-resolved's `stub-resolv.conf`, comes first.
    """
    host = _read(path)

    def behind() -> Iterator[ResolvConf]:
        neighbour = path.resolve().with_name("resolv.conf")
        for each in dict.fromkeys((neighbour, *(UPLINKS if uplinks is None else uplinks))):
            yield _read(each)

    return HostDns(host, for_own_networks(host, behind()))


def advice(servers: Sequence[str]) -> str:
    """Return the words about servers that pods do not reach."""
    return (
        f"only the machine itself reaches its name servers ({', '.join(servers)}), and none behind them is known: let "
        "tailoredKubeletConfig.resolvConf name a file with others, or give the pod a dnsConfig"
    )


def _read(path: Path) -> ResolvConf:
    try:
        return parse_resolv_conf(path.read_text(errors="replace"))
    except OSError:
        return ResolvConf()
