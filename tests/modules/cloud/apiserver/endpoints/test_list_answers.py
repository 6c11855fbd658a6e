"""The answer to a list is encoded while it is sent when it is long."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from beehive.http.responses import Response, Stream
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.apimachinery.object_encoder import ObjectEncoder, encoded
from modules.apimachinery.options import Form
from modules.apimachinery.served_resources import resource_of
from modules.cloud.apiserver.endpoints.list_answers import PIECE_BYTES, in_pieces, list_answer
from modules.cloud.apiserver.endpoints.subscriptions import WAITING_BYTES, SlowClientError, Subscriptions
from modules.cloud.storage.watch_history import ObjectChanged


class Gone:
    """A client that leaves immediately."""

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        return True


def found(count: int, size: int) -> JsonObject:
    items = [{"metadata": {"name": str(number)}, "data": "x" * size} for number in range(count)]
    return {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}


def parts_of(listed: JsonObject, form: Form = Form.OBJECT, included: str = "Object") -> Iterator[bytes]:
    encoder = ObjectEncoder(resource_of(kind_named("ConfigMap")), form, included, 0.0)
    return encoder.parts_of_list(map(encoded, listed["items"]), listed["metadata"])


def test_a_short_list_is_whole() -> None:
    for count in (0, 1, 2, 200):
        reply = list_answer(parts_of(found(count, 1000)))
        assert isinstance(reply, Response)
        assert msgspec.json.decode(reply.body) == found(count, 1000)


@pytest.mark.parametrize("form", [Form.OBJECT, Form.TABLE])
def test_a_long_list_comes_in_pieces(form: Form) -> None:
    """500 clients that read nothing had 8 MiB of it each, or all of a table: the memory of cloudcore was gone."""
    listed = found(2000, 10_000)
    reply = list_answer(parts_of(listed, form))
    assert isinstance(reply, Stream)
    pieces = list(reply.pieces(Gone()))
    whole = msgspec.json.decode(b"".join(pieces))
    items = whole["items"] if form is Form.OBJECT else [row["object"] for row in whole["rows"]]
    assert items == listed["items"]
    assert max(map(len, pieces)) < 80_000


def test_a_client_that_reads_nothing_costs_some_hundred_kilobytes() -> None:
    listed = found(2000, 10_000)
    tracemalloc.start()
    replies = [list_answer(parts_of(listed)) for _ in range(20)]
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert now < len(replies) * 400_000


def test_each_further_piece_is_made_in_a_turn() -> None:
    turns = list[int]()

    @contextmanager
    def turn() -> Iterator[None]:
        turns.append(1)
        yield

    reply = list_answer(parts_of(found(100, 10_000)), turn)
    assert isinstance(reply, Stream)
    assert not turns, "the beginning is made in the turn of the request"
    pieces = list(reply.pieces(Gone()))
    assert len(turns) == len(pieces) - 3, "4 were there; the last turn finds the end"


def test_a_list_that_its_client_does_not_take_is_cut_when_its_objects_are_old() -> None:
    subscriptions = Subscriptions()
    listed = found(100, 10_000)
    held = subscriptions.hold(listed["items"])
    encoder = ObjectEncoder(resource_of(kind_named("ConfigMap")), Form.OBJECT, "Object", 0.0)
    reply = list_answer(encoder.parts_of_list(map(encoded, held), listed["metadata"]))
    assert isinstance(reply, Stream)
    pieces = reply.pieces(Gone())
    assert next(pieces).startswith(b'{"kind":"ConfigMapList"')
    for version in range(WAITING_BYTES // (8 << 20) + 1):
        subscriptions.publish(ObjectChanged("MODIFIED", changed_object(version), None, bytes(8 << 20)))
    assert not held._objects
    with pytest.raises(SlowClientError):
        list(pieces)


def changed_object(version: int) -> JsonObject:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "resourceVersion": str(version)}}


def test_a_large_object_is_a_piece_without_a_copy() -> None:
    """Of each of 570 unread watches there were three copies of a megabyte."""
    small, large, parts = b"a" * 10, b"b" * PIECE_BYTES, [b"c" * (PIECE_BYTES // 2)] * 3
    pieces = list(in_pieces(iter([small, large, large, *parts, small])))
    assert pieces == [small, large, large, parts[0] * 2, parts[0] + small]
    assert pieces[1] is pieces[2] is large
