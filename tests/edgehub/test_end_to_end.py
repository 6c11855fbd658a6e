"""edgehub on threads, over real sockets, as it runs in the agent."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beehive import Group, Hive, Message, Module, ModuleName, Threads, decode, encode, handles
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED
from edgehub import LinkCounters, install
from edgehub.errors import SettingsError
from tests.edgehub.clouds import LibraryCloud, ScriptedCloud
from tests.edgehub.links import settings
from tests.edgehub.messages import message
from tests.interop.traces import is_message, lines_of, recordings
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


class Recorder(Module):
    """Stands where metamanager is: records, and acknowledges what the cloud sent, as it does."""

    name = ModuleName.METAMANAGER
    group = Group.META

    def __init__(self, got: "queue.Queue[Message]") -> None:
        super().__init__()
        self._got = got

    @handles("connection")
    def connection(self, event: Message) -> None:
        self._got.put(event)

    @handles()
    def record(self, object_: Message) -> None:
        self._got.put(object_)
        self.send(ModuleName.EDGEHUB, object_.reply(self.clock))


class Node:
    """A hive with edgehub and the recorder."""

    def __init__(self, port: int, **changes: Any) -> None:
        self.hive = Hive(Threads())
        self.got: queue.Queue[Message] = queue.Queue()
        quick = settings(port, reconnect_base=0.01, reconnect_limit=0.02, **changes)
        self.counters: LinkCounters = install(self.hive, quick)
        self.hive.add(Recorder, self.got)

    def next(self) -> Message:
        """What metamanager gets next."""
        return self.got.get(timeout=PATIENCE)


@contextmanager
def node(port: int, **changes: Any) -> Iterator[Node]:
    """A node that runs, and whose end leaves no thread behind."""
    before = set(threading.enumerate())
    made = Node(port, **changes)
    made.hive.start()
    try:
        yield made
    finally:
        made.hive.stop()
        made.hive.clock.close()
    started = set(threading.enumerate()) - before
    own = [thread for thread in started if thread.name != "cloud" and not thread.name.startswith("Thread-")]
    for thread in own:
        thread.join(PATIENCE)
    assert not [thread.name for thread in own if thread.is_alive()]


def test_a_node_joins_with_a_keepalive_first_and_acknowledges_an_object() -> None:
    """The whole way, both ways."""
    with LibraryCloud() as cloud, node(cloud.port) as joined:
        connection = cloud.accept()
        assert connection.request is not None
        assert connection.request.headers["node_id"] == "edge-1"
        assert decode(cloud.frame()).route.operation == "keepalive"
        assert joined.next().content_as(str) == CLOUD_CONNECTED
        pod = message("default/pod/nginx", "insert", {"kind": "Pod"}, resourceversion="1", source="edgecontroller")
        connection.send(encode(pod).decode())
        assert joined.next().content_as(dict) == {"kind": "Pod"}
        acknowledgement = decode(cloud.frame())
        assert (acknowledgement.parent_id, acknowledgement.route.operation) == (pod.id, "response")
        assert acknowledgement.content_as(str) == "OK"


def test_of_several_clouds_the_next_is_dialled_when_a_link_has_ended_or_cannot_be_made() -> None:
    """One of three is down all the while; after the last one it is the first one's turn again."""
    with LibraryCloud() as first, LibraryCloud() as last:
        urls = tuple(f"ws://127.0.0.1:{port}/p/edge-1/events" for port in (free_port(), last.port))
        with node(first.port, other_urls=urls):
            for cloud in (first, last, first):
                cloud.accept().close()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_link_cut_again_and_again_comes_back_and_loses_nothing(how: str) -> None:
    """The link is cut twenty times while a hundred messages leave: all arrive, and each link is reported once as up and
    once as down.
    """
    ids = []
    seen: set[str] = set()
    with ScriptedCloud() as cloud, node(cloud.port, message_qps=0) as joined:
        for round_ in range(20):
            connection = cloud.accept()
            for number in range(5):
                sent = message(f"default/event/{round_}-{number}", "insert")
                ids.append(sent.id)
                joined.hive.send(ModuleName.EDGEHUB, sent)
            seen.update(decode(connection.text()).id for _ in range(round_ % 4))
            getattr(connection, how)()
        connection = cloud.accept()
        while not seen.issuperset(ids):
            seen.add(decode(connection.text()).id)
        events = [joined.next().content_as(str) for _ in range(41)]
        assert events == [CLOUD_CONNECTED, CLOUD_DISCONNECTED] * 20 + [CLOUD_CONNECTED]
        assert joined.counters.connections == 21
        assert sum(joined.counters.ends.values()) == 20


def test_a_node_stops_promptly_while_it_dials() -> None:
    """A cloud that hangs does not hold it up."""
    with ScriptedCloud() as cloud, node(cloud.port):
        cloud.connection().read_request()


@pytest.mark.parametrize("trace", recordings(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_messages_of_a_real_cloud_are_taken(trace: Path) -> None:
    """Every recorded message reaches metamanager, or is an answer nobody here waits for; none is rejected."""
    frames = [one["msg"] for one in lines_of(trace) if is_message(one) and one["dir"] == "cloud->edge"]
    pushed = [one for one in frames if not one["header"].get("parent_msg_id") and one["route"]["group"] == "resource"]
    with LibraryCloud() as cloud, node(cloud.port) as joined:
        connection = cloud.accept()
        assert joined.next().content_as(str) == CLOUD_CONNECTED
        for frame in frames:
            connection.send(json.dumps(frame))
        connection.send(encode(message("default/pod/last", "insert")).decode())
        got = []
        while (one := joined.next()).route.resource != "default/pod/last":
            got.append(one)
        late = [one for one in got if one.id not in {sent["header"]["msg_id"] for sent in pushed}]
        assert [one.id for one in got if one not in late] == [sent["header"]["msg_id"] for sent in pushed]
        assert len(late) == joined.counters.late
        assert not joined.counters.rejected


def test_settings_that_no_link_can_be_made_of_are_refused_before_the_start() -> None:
    """`install` says so, not the module's log."""
    with pytest.raises(SettingsError, match="URL"):
        install(Hive(Threads()), settings(url="127.0.0.1:10000"))


def test_the_agent_s_process_gets_no_heavy_imports() -> None:
    """Neither websockets, asyncio, http nor prometheus come with edgehub (grpc loads `ssl` anyway)."""
    heavy = ("websockets", "asyncio", "http", "email", "prometheus_client", "logging.handlers")
    code = f"import sys, edgehub; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
