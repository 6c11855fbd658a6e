"""What a client hands from the transport's thread to its module's, and when."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from beehive.clock import Clock, Timer
from beehive.simulation import Simulation
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.reflector.effects import Added, Synced
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener

METADATA = {"name": "web", "uid": "u1", "resourceVersion": "7"}
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": METADATA}
PAGE = msgspec.json.encode(
    {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [POD]}
)
EVENT = msgspec.json.encode({"type": "ADDED", "object": {**POD, "metadata": {**METADATA, "name": "second"}}})


class Thread:
    """A module's thread, whose calls wait until `run`."""

    def __init__(self) -> None:
        self.clock: Clock = Simulation(1).clock
        self.waiting: list[Callable[[], None]] = []

    def call_soon(self, function: Callable[[], None]) -> None:
        self.waiting.append(function)

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self.clock.after(seconds, function)

    def run(self) -> int:
        """Make the calls; return how many there were."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()
        return len(waiting)


class Transport:
    """A transport and each of its exchanges; the test answers the request that was started last."""

    def __init__(self) -> None:
        self.started: list[tuple[ApiRequest, ResponseListener]] = []

    def start(self, request: ApiRequest, listener: ResponseListener) -> Transport:
        self.started.append((request, listener))
        return self

    def cancel(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


def test_a_page_is_handed_over_when_it_is_complete_and_an_event_as_it_comes() -> None:
    """A page in a hundred pieces wakes the module for its head and its end; an event of a watch does, unless the module
    has not come to the one before.
    """
    thread, transport = Thread(), Transport()
    told: list[News] = []
    KubeClient(transport, thread, thread.clock.random).watch(Selection(path="/api/v1/pods"), told.append)
    _, page = transport.started[-1]
    page.on_head(ResponseHead(200))
    for at in range(0, len(PAGE), 2):
        page.on_data(PAGE[at : at + 2])
    assert thread.run() == 1, "the head"
    page.on_end()
    assert thread.run() == 1, "its body and its end together"
    assert [type(each) for each in told] == [Added, Synced]
    request, watch = transport.started[-1]
    assert request.stream
    watch.on_head(ResponseHead(200))
    watch.on_data(EVENT + b"\n")
    assert thread.run() == 1
    assert isinstance(told[-1], Added)
    assert told[-1].object.name == "second"


def test_a_refusal_is_handed_over_with_its_words() -> None:
    """What the server says of a list that it refuses is not lost."""
    thread, transport = Thread(), Transport()
    told: list[News] = []
    KubeClient(transport, thread, thread.clock.random).watch(Selection(path="/api/v1/pods"), told.append)
    _, page = transport.started[-1]
    page.on_head(ResponseHead(403))
    page.on_data(b'{"kind":"Status","code":403,')
    page.on_data(b'"message":"pods is forbidden"}')
    page.on_end()
    thread.run()
    assert [(getattr(each, "status", 0), getattr(each, "message", "")) for each in told] == [(403, "pods is forbidden")]
