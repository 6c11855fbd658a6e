"""The route to the Services' range, and the address of the name server, by the program `ip` of iproute2.

Without a route a connection to a Service fails before any rule sees it, as on a machine that has no default route.
"""

import subprocess
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from beehive.decoding import decode_json
from beehive.printable import printable

T = TypeVar("T")

METRIC: Final = "4000"
"""Of the route: any other route to the range comes first."""

_SECONDS: Final = 10.0


class AddressError(Exception):
    """The route or address could not be changed; the text has the reason."""


class _Route(Struct):
    prefsrc: str = ""
    dev: str = ""


class _AddressInfo(Struct):
    family: str = ""
    local: str = ""
    scope: str = ""


class _Link(Struct):
    addr_info: list[_AddressInfo] = []


class HostAddresses:
    """The machine's routes and addresses. Blocks."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._command = [*prefix, "ip"]

    def add_route(self, cidr: str) -> None:
        """Route a range of Services to the loopback interface, from where the rules send it on.

        Raises:
            AddressError: the kernel refuses it, or there is no program.
        """
        version = "-6" if ":" in cidr else "-4"
        source = self._source(version)
        given = ("src", source) if source else ()
        self._run(version, "route", "replace", cidr, "dev", "lo", *given, "metric", METRIC)

    def add_local_route(self, cidr: str) -> None:
        """Make all addresses of a range the node's own, for a proxy that listens on them. Raises AddressError."""
        self._run("-6" if ":" in cidr else "-4", "route", "replace", "local", cidr, "dev", "lo", "metric", METRIC)

    def remove_route(self, cidr: str) -> None:
        """Remove the route; it may be missing. Raises AddressError."""
        self._run("-6" if ":" in cidr else "-4", "route", "flush", cidr, "dev", "lo", "metric", METRIC)

    def add_address(self, address: str) -> None:
        """Add an address of the name server to the loopback interface. Raises AddressError."""
        self._run("address", "replace", f"{address}/{128 if ':' in address else 32}", "dev", "lo")

    def remove_address(self, address: str) -> None:
        """Remove it; it may be missing. Raises AddressError."""
        self._run("address", "flush", "dev", "lo", "to", f"{address}/{128 if ':' in address else 32}")

    def of_node(self) -> list[str]:
        """Return the addresses of the machine's interfaces that are not loopback ones. Raises AddressError."""
        links = self._read(list[_Link], "address", "show")
        return [each.local for link in links for each in link.addr_info if each.scope == "global"]

    def _source(self, version: str) -> str:
        """Return the address that the node sends from: on the default route, else any; empty without one."""
        target = "2001:db8::1" if version == "-6" else "192.0.2.1"
        try:
            routes = self._read(list[_Route], version, "route", "get", target)
        except AddressError:
            routes = []
        for route in routes:
            if route.prefsrc and route.dev != "lo":
                return route.prefsrc
        return next((each for each in self.of_node() if (":" in each) == (version == "-6")), "")

    def _read(self, kind: type[T], *arguments: str) -> T:
        try:
            return decode_json(self._run("-j", *arguments), kind)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise AddressError(f"what ip prints cannot be read: {error}") from error

    def _run(self, *arguments: str) -> bytes:
        try:
            ended = subprocess.run(
                [*self._command, *arguments],
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise AddressError("the program ip is not installed: apt-get install iproute2") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AddressError(str(error)) from error
        if ended.returncode:
            raise AddressError(printable(ended.stderr.decode(errors="replace").strip()[:500]))
        return ended.stdout
