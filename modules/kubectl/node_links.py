"""What the server knows of the link of a node: cloudcore's own facts, or the node's about itself."""

from typing import Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.cli.errors import KubectlError, StatusError, UnreachableError
from modules.cli.rest import RestClient
from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.facts import LinkKnowledge, linked_row
from modules.insight.fleet.rows import NodeRow, PodCount
from modules.insight.fleet.states import AWAY, own_link, own_link_words

_MOST: Final = 256 * 1024
"""Bytes of an answer."""


class _Refused(msgspec.Struct, frozen=True):
    why: str


class _Connections(msgspec.Struct, frozen=True):
    nodes: list[NodeConnection] = []
    refused: list[_Refused] = []


class _Sessions(msgspec.Struct, frozen=True):
    links: list[LinkSession] = []


class _Cloudcores(msgspec.Struct, frozen=True):
    own: str
    alive: tuple[str, ...] = ()
    nodes: dict[str, str] = {}
    cloud: str = ""


def cloud_name(client: RestClient) -> str:
    """Return the name of the cloud; empty if it has none, or the server is not a cloudcore."""
    try:
        return decode_json(_asked(client, "cloudcores"), _Cloudcores).cloud
    except (KubectlError, msgspec.MsgspecError, UnicodeError):
        return ""


def row_of(client: RestClient, name: str, node: JsonObject | None, now: float) -> NodeRow | None:
    """Return the row of a node as cloudcore knows it; None if its facts are not served, or not to this user.

    Raises:
        UnreachableError: no server answers.
    """
    try:
        connections = decode_json(_asked(client, "nodes", node=name), _Connections)
        sessions = decode_json(_asked(client, "links", node=name, newest="1"), _Sessions).links
        cloudcores = decode_json(_asked(client, "cloudcores"), _Cloudcores)
    except UnreachableError:
        raise
    except (KubectlError, msgspec.MsgspecError, UnicodeError):
        return None
    holder = cloudcores.nodes.get(name, "")
    link = LinkKnowledge(
        held=next(iter(connections.nodes), None),
        holder=holder if holder != cloudcores.own and holder in cloudcores.alive else "",
        refused=next((each.why for each in connections.refused), ""),
        sessions=sessions,
    )
    return linked_row(name, node, link, PodCount(), now)


def own_remarks(client: RestClient, now: float) -> list[str]:
    """Return a remark if the node that is asked has no link to its cloud.

    Raises:
        UnreachableError: no server answers.
    """
    try:
        state = client.get("/edgecore/state")
    except StatusError:
        return []
    if own_link(state) != AWAY:
        return []
    why = " ".join(text_at(state, "link.why").split())
    last = f"; the last error: {why}" if why else ""
    return [f"{text_at(state, 'node')} {own_link_words(state, now)}, without what the cloud has changed since{last}"]


def _asked(client: RestClient, what: str, **query: str) -> bytes:
    return client.raw("GET", f"/cloudcore/{what}", tuple(query.items()), most=_MOST)
