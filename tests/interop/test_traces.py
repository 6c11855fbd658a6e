"""Messages of a real KubeEdge of today and of 2019 in our codec."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beehive import ContentError, FrameError, Message, Resource, Side, decode, encode
from beehive.resource import trim_node
from tests.interop.traces import frame, messages, recordings

EACH_RECORDING = pytest.mark.parametrize("path", recordings(), ids=lambda path: f"{path.parent.name}/{path.stem}")
SAMPLE = [frame(one) for path in recordings()[::3] for one in list(messages(path))[::4]]


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


@given(st.sampled_from(SAMPLE or [b"{}"]), st.data())
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
def test_mutated_recordings_are_a_message_or_a_frame_error(real: bytes, data: st.DataObject) -> None:
    """Law: real frames, cut, changed or with bytes put in, never end in anything else."""
    mutated = bytearray(real)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(mutated) - 1, 400)) | st.integers(0, len(mutated) - 1))
        match data.draw(st.sampled_from(["cut", "change", "insert"])):
            case "cut":
                del mutated[max(1, at) :]
            case "change":
                mutated[at] = data.draw(st.integers(0, 255))
            case _:
                mutated[at:at] = data.draw(st.binary(min_size=1, max_size=4))
    try:
        message: Message = decode(bytes(mutated))
    except FrameError:
        return
    with contextlib.suppress(ContentError):
        message.content_as(Any)
