"""The kernel's reports of changed rules, without a kernel."""

import struct
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest

from beehive.sockets.netlink import attribute, message, messages
from modules.edge.edgemesh.nft import conntrack, watch
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.nft.program import Nft
from modules.edge.edgemesh.nft.watch import Deletions, Loss, NftWatch, deletes_ours

_TABLE, _CHAIN, _RULE, _GENERATION = (10 << 8 | kind for kind in (2, 5, 8, 15))
_IPV4 = struct.pack("=BBH", 2, 0, 0)


def _gone(kind: int, table: str = "edgecore", chain: str = "dispatch") -> bytes:
    name = attribute(1, table.encode() + b"\0")
    return message(kind, 0, _IPV4 + name + (attribute(3, chain.encode() + b"\0") if kind == _CHAIN else b""))


_END = message(_GENERATION, 0, _IPV4)


@pytest.mark.parametrize(
    ("report", "is_ours"),
    [
        (_gone(_TABLE), True),
        (_gone(_TABLE, "filter"), False),
        (_gone(_CHAIN), True),
        (_gone(_CHAIN, chain="svc-0123456789ab"), False),
        (_gone(_CHAIN, "filter", "dispatch"), False),
        (_gone(_RULE), False),
        (_END, False),
        (message(_TABLE, 0, b"\1"), False),
    ],
)
def test_only_the_deletion_of_the_table_and_of_its_fixed_chains_is_one(report: bytes, *, is_ours: bool) -> None:
    assert [deletes_ours(each) for each in messages(report)] == [is_ours]


def test_a_transaction_in_many_datagrams_is_one_deletion() -> None:
    reports = [_gone(_CHAIN, chain=f"nat-{number}") for number in range(16)]
    deletions = Deletions()
    datagrams = [
        *reports,
        _gone(_TABLE),
        _END,
        _END,
        _gone(_RULE) + _END,
        _gone(_TABLE) + _END + _gone(_TABLE),
        _END + _END,
    ]
    ends = [deletions.end_with(messages(each)) for each in datagrams]
    assert [number for number, each in enumerate(ends) if each] == [17, 20, 21]


def test_what_the_kernel_could_not_report_ends_what_was_known_of_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Mock(read=Mock(side_effect=[_gone(_TABLE), None, _END]), listen=lambda read: [read() for _ in range(3)])
    monkeypatch.setattr(watch, "NetlinkListener", lambda *_: kernel)
    lost: list[Loss] = []
    NftWatch().run(lost.append)
    assert lost == [Loss.POSSIBLE]


def test_a_list_of_flows_that_the_kernel_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an empty one; the end of a list without an error is."""
    channel = MagicMock()
    channel.__enter__.return_value = channel
    monkeypatch.setattr(conntrack, "_open", lambda: channel)
    wanted = {("10.96.0.1", 53): frozenset[tuple[str, int]]()}
    for code, kind in ((-1, 2), (0, 2), (0, 3)):
        channel.recv.return_value = message(kind, 0, struct.pack("=i", code))
        if code:
            with pytest.raises(PermissionError):
                conntrack.delete_stale(wanted)
        else:
            assert conntrack.delete_stale(wanted) == 0


def _printing(directory: Path, *answers: str) -> list[str]:
    """A program that prints the answers, one in each call, for any arguments."""
    program = directory / "program"
    cases = "".join(f"{number}) echo '{text}';; " for number, text in enumerate(answers, 1))
    program.write_text(f"#!/bin/sh\necho $* >> {directory}/calls\ncase $(wc -l < {directory}/calls) in {cases}esac\n")
    program.chmod(0o755)
    return [str(program)]


def test_chains_of_others_are_not_ours(tmp_path: Path) -> None:
    chains = '{"nftables": [{"chain": {"table": "edgecore", "name": "a"}}, {"chain": {"table": "nat", "name": "b"}}]}'
    assert Nft(_printing(tmp_path, chains, '{"nftables": []}')).names("ip") == ["a"]


def test_the_own_route_to_services_is_no_default_route(tmp_path: Path) -> None:
    """It would give connections the loopback address as their source."""
    links = '[{"addr_info": [{"family": "inet", "local": "192.0.2.9", "scope": "global"}]}]'
    HostAddresses(_printing(tmp_path, '[{"dev": "lo", "prefsrc": "127.0.0.1"}]', links)).add_route("10.96.0.0/16")
    last = (tmp_path / "calls").read_text().splitlines()[-1]
    assert last == "ip -4 route replace 10.96.0.0/16 dev lo src 192.0.2.9 metric 4000"
