"""The kernel's reports of changed rules, without a kernel."""

import struct

import pytest

from beehive.sockets.netlink import attribute, message, messages
from modules.edge.edgemesh.nft.watch import Deletions, deletes_ours

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
