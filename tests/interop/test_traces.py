"""Messages of a real KubeEdge of today and of 2019 in our codec."""

import json
from pathlib import Path
from typing import Any

import pytest

from beehive import Resource, Side, decode, encode
from beehive.resource import trim_node
from tests.interop.traces import frame, messages, recordings

EACH_RECORDING = pytest.mark.parametrize("path", recordings(), ids=lambda path: f"{path.parent.name}/{path.stem}")


def test_there_are_recordings() -> None:
    """The tests below must not pass on an empty list."""
    assert sum(len(list(messages(path))) for path in recordings()) > 100


@EACH_RECORDING
def test_every_message_decodes_and_encodes_to_an_equal_value(path: Path) -> None:
    """With content left undecoded, and with content read and encoded again."""
    for recorded in messages(path):
        message = decode(frame(recorded))
        assert json.loads(encode(message)) == recorded
        read = message.with_content(message.content_as(Any))
        assert json.loads(encode(read)) == recorded


@EACH_RECORDING
def test_every_frame_is_read_the_same_on_the_slow_path(path: Path) -> None:
    """An unknown key, as a later KubeEdge may send it, changes nothing."""
    for recorded in messages(path):
        fast, slow = decode(frame(recorded)), decode(frame({"later": 1, **recorded}))
        assert (fast.header, fast.route) == (slow.header, slow.route)
        assert bytes(fast.content_raw()) == bytes(slow.content_raw())


@EACH_RECORDING
def test_every_envelope_is_written_as_go_wrote_it(path: Path) -> None:
    """Same keys in the same order, nothing left out that Go writes, nothing written that Go leaves out."""
    for recorded in messages(path):
        written = json.loads(encode(decode(frame(recorded))))
        assert list(written) == list(recorded)
        for part in ("header", "route"):
            assert list(written[part]) == list(recorded[part])


@EACH_RECORDING
def test_every_resource_parses_and_prints_back(path: Path) -> None:
    """On the edge's side as on the wire, on the cloud's side with a node before it."""
    for recorded in messages(path):
        text = str(recorded["route"]["resource"])
        assert str(Resource.parse(text)) == text
        on_cloud = f"node/edge-node/{text}"
        assert str(Resource.parse(on_cloud, Side.CLOUD)) == on_cloud
        assert trim_node(on_cloud) == text
