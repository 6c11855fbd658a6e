"""A node's store and devicetwin, for recorded messages of a real cloud and of applications."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from beehive import Message, decode
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from edgehub.dispatch import Step, decide
from metamanager.errors import StoreWriteError
from metamanager.module import MetaManager, MetaSettings
from metamanager.store import Store, open_store
from modules.edge.devicetwin.changes import Rules
from modules.edge.devicetwin.feed import DeviceFeed
from modules.edge.devicetwin.module import DeviceTwin, TwinSettings
from modules.edge.devicetwin.topics import resource_of
from tests.interop.traces import frame, is_message, lines_of

Json = dict[str, Any]
Said = tuple[str, Any]
"""Topic or resource, and the payload, without times and ids."""

_PUBLISHED = re.compile(r"MQTT publish by the application: (\S+) (.*)", re.DOTALL)


class Node:
    """metamanager and devicetwin in virtual time; what they say to cloud and applications is captured.

    Args:
        directory: of the store.
        rules: of devicetwin.
        name: of the node.
        feed: gets the changes.
    """

    def __init__(
        self,
        directory: Path,
        rules: Rules = Rules(),  # noqa: B008
        name: str = "cap-edge",
        feed: DeviceFeed | None = None,
    ) -> None:
        self._directory = directory
        self._rules = rules
        self._name = name
        self._feed = feed
        self._done: set[str] = set()
        self.is_connected = False
        self.disk_is_full = False
        """Whether each commit of the store fails."""
        self.commits_left: int | None = None
        """How many more commits the store accepts; None: all."""
        self.start()

    def start(self) -> None:
        """Start the modules on the files of the directory."""
        self.bee = Harness()
        self.bee.add(MetaManager, MetaSettings(str(self._directory / "edgecore.db")), self._open_store)
        self.bee.start(DeviceTwin, TwinSettings(self._name, mqtt=True, rules=self._rules), self._feed)

    def _open_store(self, source: str) -> Store:
        store = open_store(source)
        commit = store.commit

        def checked() -> None:
            if self.commits_left:
                self.commits_left -= 1
            elif self.disk_is_full or self.commits_left == 0:
                store.rollback()
                raise StoreWriteError("commit", source, "the disk is full", batch_lost=True)
            commit()

        store.commit = checked  # type: ignore[method-assign]
        return store

    def stop(self) -> None:
        """Stop them."""
        self.bee.hive.stop()

    def restart(self) -> None:
        """Stop them, and start others on the same files."""
        self.stop()
        self.start()

    def link(self, *, up: bool) -> None:
        """Let the link to the cloud begin or end."""
        self.is_connected = up
        for group in ("meta", "twin"):
            content = CLOUD_CONNECTED if up else CLOUD_DISCONNECTED
            event = self.bee.message(CONNECTION_RESOURCE, "connect", content, source="edgehub", group=group)
            self.bee.hive.broadcast(group, event)
        self.bee.settle()

    def from_cloud(self, message: Message) -> None:
        """Deliver a message as edgehub does."""
        step, to = decide(message)
        assert step is Step.BROADCAST, (step, to)
        self.bee.hive.broadcast(to, message)
        self.bee.settle()

    def from_application(self, topic: str, payload: str) -> None:
        """Deliver an application's message as eventbus does."""
        message = self.bee.message(resource_of(topic), "response", payload, source="bus", group="user")
        self.bee.send("twin", message)

    @property
    def uploads(self) -> list[Message]:
        """What devicetwin has told the cloud."""
        return [one for one in self.bee.sent_to("websocket") if one.route.source == "twin"]

    @property
    def acknowledgements(self) -> list[Message]:
        """What metamanager has acknowledged."""
        return [one for one in self.bee.sent_to("hub") if one.parent_id]

    @property
    def published(self) -> list[tuple[str, Json]]:
        """What applications have heard: topics and payloads."""
        return [(one.route.resource, json.loads(one.content_as(str))) for one in self.bee.sent_to("eventbus")]

    def answer(self, content: Any = "OK", operation: str = "response") -> int:
        """Answer all that devicetwin has told the cloud and that is not answered; return how much it was."""
        asked = [one for one in self.uploads if one.id not in self._done]
        for one in asked:
            self._done.add(one.id)
            reply = Message.new(
                self.bee.clock,
                source="devicecontroller",
                group="twin",
                operation=operation,
                resource="twin",
                content=content,
                parent_id=one.id,
            )
            self.from_cloud(reply)
        return len(asked)

    def answer_all(self) -> None:
        """Answer until devicetwin has nothing more to tell."""
        while self.answer():
            pass


def bare(value: Any) -> Any:
    """A value without times and ids."""
    if isinstance(value, str) and value[:1] == "{":
        return bare(json.loads(value))
    if isinstance(value, dict):
        return {
            key: bare(inner)
            for key, inner in value.items()
            if key not in ("timestamp", "event_id", "lastOnlineTime", "last_online")
        }
    return [bare(one) for one in value] if isinstance(value, list) else value


def play(node: Node, link: Path, mqtt: Path | None) -> tuple[dict[str, list[Said]], dict[str, list[Said]]]:
    """Play a recording to the node; return what it said, and what the recorded edge had said, by `mqtt` and `cloud`."""
    recorded: dict[str, list[Said]] = defaultdict(list)
    lines = lines_of(link)
    node.bee.forget()
    for line in lines:
        _play_line(node, line, recorded)
    if mqtt is not None:
        for line in lines_of(mqtt):
            if line["kind"] == "mqtt" and _by_edge(line["topic"]):
                recorded["mqtt"].append((line["topic"], bare(json.loads(line["payload"]))))
    ours: dict[str, list[Said]] = {
        "mqtt": [(topic, bare(said)) for topic, said in node.published],
        "cloud": [(one.route.resource, bare(_content(one))) for one in node.uploads],
        "acknowledged": [(one.route.resource, (one.route.source, one.route.group)) for one in node.acknowledgements],
    }
    return ours, dict(recorded)


def _play_line(node: Node, line: Json, recorded: dict[str, list[Said]]) -> None:
    if line["kind"] == "mark":
        found = _PUBLISHED.fullmatch(line["text"])
        if found is not None:
            node.bee.run_for(2.0)
            node.from_application(found[1], found[2])
            while node.is_connected and node.answer():
                pass
        elif line["text"].startswith("link cut"):
            node.link(up=False)
    elif line["kind"] == "http-response":
        node.link(up=True)
    elif is_message(line):
        _play_message(node, line, recorded)


def _play_message(node: Node, line: Json, recorded: dict[str, list[Said]]) -> None:
    message = line["msg"]
    route = message["route"]
    if "lease" in route["resource"] or route["operation"] == "keepalive":
        return
    if line["dir"] == "cloud->edge":
        if not message["header"].get("parent_msg_id"):
            node.from_cloud(decode(frame(message)))
    elif message["header"].get("parent_msg_id"):
        recorded["acknowledged"].append((route["resource"], (route["source"], route["group"])))
    else:
        recorded["cloud"].append((route["resource"], bare(message["content"])))


def _content(message: Message) -> Any:
    return json.loads(bytes(message.content_raw()))


def _by_edge(topic: str) -> bool:
    return topic.endswith(("/result", "/document", "/delta", "/membership/updated"))
