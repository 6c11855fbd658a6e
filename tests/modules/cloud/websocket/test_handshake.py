"""Which upgrades of nodes are refused, by their headers and certificates."""

from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request

from modules.cloud.websocket.handshake import refuse_handshake

_HOST = ("Host", "hub.example:10000")
_NODE, _USE = ("node_id", "n1"), ("ConnectionUse", "msg")


def certificate(node: str) -> dict[str, Any]:
    return {"subject": ((("organizationName", "system:nodes"),), (("commonName", f"system:node:{node}"),))}


@pytest.mark.parametrize(
    ("headers", "of", "connected", "reason"),
    [
        ([_NODE, _USE], certificate("n1"), [], ""),
        ([_NODE, _USE, ("node_id", "n2")], certificate("n1"), [], ""),
        ([_NODE, _USE, ("Origin", "https://hub.example:10000")], certificate("n1"), [], ""),
        ([_NODE, _USE, ("Origin", "https://hub.example:10000.evil.example")], certificate("n1"), [], "origin"),
        ([_NODE, _USE, ("Origin", "https://evil.example")], certificate("n1"), [], "origin"),
        ([_USE], certificate("n1"), [], "node name"),
        ([("node_id", "N1"), _USE], certificate("n1"), [], "node name"),
        ([_NODE], certificate("n1"), [], "use"),
        ([_NODE, ("ConnectionUse", "stream")], certificate("n1"), [], "use"),
        ([_NODE, _USE], certificate("n2"), [], "certificate of another node"),
        ([_NODE, _USE], None, [], "certificate of another node"),
        ([_NODE, _USE], certificate("n1"), ["n2"], ""),
        ([_NODE, _USE], certificate("n1"), ["n2", "n3"], "node limit"),
        ([_NODE, _USE], certificate("n1"), ["n1", "n2"], ""),
    ],
)
def test_an_upgrade_is_refused_with_the_reason(
    headers: list[tuple[str, str]], of: dict[str, Any] | None, connected: list[str], reason: str
) -> None:
    request = Request("/", Headers([_HOST, *headers]))
    refused = refuse_handshake(request, of, connected, 2, tls=True)
    assert (refused.reason if refused is not None else "") == reason
