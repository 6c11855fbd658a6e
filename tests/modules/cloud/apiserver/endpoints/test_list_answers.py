"""The answer to a list is encoded while it is sent when it is long."""

import msgspec

from beehive.http.responses import Response, Stream
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.endpoints.list_answers import list_answer


class Gone:
    """A client that leaves immediately."""

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        return True


def found(count: int, size: int) -> JsonObject:
    items = [{"metadata": {"name": str(number)}, "data": "x" * size} for number in range(count)]
    return {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}


def test_a_short_list_is_whole() -> None:
    for count in (0, 1, 2, 600):
        reply = list_answer(found(count, 1000))
        assert isinstance(reply, Response)
        assert msgspec.json.decode(reply.body) == found(count, 1000)


def test_a_long_list_comes_in_pieces() -> None:
    reply = list_answer(found(2000, 10_000))
    assert isinstance(reply, Stream)
    pieces = list(reply.pieces(Gone()))
    assert msgspec.json.decode(b"".join(pieces)) == found(2000, 10_000)
    assert max(map(len, pieces[1:])) < 512 * 1024
    assert len(pieces[0]) < 16 * 1024 * 1024
