"""The API on a real socket, with a hub whose cloud the test is."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beehive import Hive, Message, Module, ModuleName, Threads, handles
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Handler, Response
from modules.apimachinery.application import Application
from modules.edge.metaserver.api import Api, ApiSettings
from modules.edge.metaserver.watch_cache import WatchCache
from tests.modules.edge.metaserver.objects import FIRST, obj, put
from tests.support.kubectl import Kubectl

Cloud = Callable[[Message], Message | None]


class Hub(Module):
    """The hub; what it is asked goes to a function, whose answer is the cloud's."""

    name = ModuleName.EDGEHUB

    def __init__(self, cloud: list[Cloud]) -> None:
        super().__init__()
        self._cloud = cloud

    @handles()
    def take(self, message: Message) -> None:
        """A request for the cloud."""
        answer = self._cloud[0](message)
        if answer is not None:
            self.respond(answer)


class Meta(Module):
    """metamanager, as far as its readiness is asked for."""

    name = ModuleName.METAMANAGER


class Served:
    """The API, the cache behind it, and the cloud."""

    def __init__(
        self,
        *,
        secrets: bool = False,
        logs: Handler | None = None,
        unhold: Callable[[str, str], Response] | None = None,
    ) -> None:
        self.threads = Threads()
        self.hive = Hive(self.threads)
        self.asked: list[tuple[Message, Application]] = []
        self._cloud: list[Cloud] = [lambda _: None]
        self.hive.add(Meta)
        self.hive.add(Hub, self._cloud)
        self.hive.start()
        self.cache = WatchCache(FIRST)
        self.cache.load({})
        settings = ApiSettings("n1", "v1.32.10-kubeedge-v1.22.0", secrets=secrets)
        api = Api(settings, self.cache, self.hive, logs, lambda _, name: f"only-{name}", unhold=unhold)
        self.server = HttpServer(listen_tcp("127.0.0.1", 0), api, self.hive.clock, max_body=1000)
        self.server.start()
        self.kubectl = Kubectl(self.server.port)

    def has(self, *objects: dict[str, Any]) -> None:
        """The node has these."""
        put(self.cache, *objects)

    def cloud_answers(self, **changes: Any) -> None:
        """To every Application with these changes to it."""

        def answer(message: Message) -> Message:
            app = message.content_as(Application)
            self.asked.append((message, app))
            fields = {key: getattr(app, key) for key in app.__struct_fields__} | changes
            return message.reply(self.hive.clock, Application(**fields), source=ModuleName.DYNAMICCONTROLLER)

        self._cloud[0] = answer

    def hub_says(self, text: str) -> None:
        """To every request: an error of its own."""
        self._cloud[0] = lambda message: message.error(self.hive.clock, text, source=ModuleName.EDGEHUB)

    def close(self) -> None:
        """Ends all."""
        self.server.stop()
        self.hive.stop()
        self.threads.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """An API on a node that has pods `web` and `api`, a node and a secret."""
    made = Served()
    made.has(
        obj("web", labels={"app": "web"}, spec={"nodeName": "n1", "containers": [{}]}, status={"phase": "Running"}),
        obj("api", "other", spec={"containers": [{}, {}]}),
        obj("pass", kind="Secret", data={"x": "aGVsbG8="}),
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}},
    )
    yield made
    made.close()


@pytest.fixture
def echoing() -> Iterator[Served]:
    """A node that serves secrets, and whose logs contain the requests."""

    def echo(request: Request) -> Response:
        return Response(200, "text/plain", f"{request.parts} {request.query}".encode())

    made = Served(secrets=True, logs=echo)
    made.has(obj("web"), obj("pass", kind="Secret", data={"x": "aGVsbG8="}))
    yield made
    made.close()
