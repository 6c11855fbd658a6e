"""Nodes with metamanager and edgehub on real files and sockets, and a module in edged's place that reports of each pod
which version of it it has, and ends the pods that are to end.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive import Group, Hive, Message, Module, ModuleName, Operation, ResourceType, Threads, handles
from edgehub import EdgeHubSettings, install
from edgehub.outbox.sqlite import open_outbox
from metamanager.client import AsyncMetaClient, ConflictError, NotFoundError
from metamanager.module import MetaManager, MetaSettings

VERSION: Final = "version"
"""The annotation with the number that a pod's writer has given it."""
_AGAIN: Final = 0.3
"""Seconds until a report that failed is tried again."""
_DEADLINE: Final = 3.0
"""Seconds for an answer, which does not come from a cloudcore that was killed."""


class Seen(msgspec.Struct):
    """What a node was told of one pod, by its uid."""

    name: str
    versions: list[int] = []
    """resourceVersions, in order, without repetitions."""
    numbers: list[int] = []
    """The writer's numbers, in order."""
    is_gone: bool = False
    was_replaced: bool = False
    """Whether no deletion came before another pod of its name, which ends it on a node, too."""
    came_back: bool = False
    """Whether it came after its deletion."""


class Knowledge:
    """What a node has been told; read by other threads."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = defaultdict(lambda: Seen(""))
        """By uid."""

    def present(self) -> list[tuple[str, int]]:
        """The name of each pod that is there, with the writer's number."""
        return [(each.name, each.numbers[-1]) for each in list(self.seen.values()) if not each.is_gone]


class Reporter(Module):
    """Registers the node, and reports of each pod the number that it has."""

    name = ModuleName.EDGED
    group = Group.EDGED

    def __init__(self, node: str, knowledge: Knowledge) -> None:
        super().__init__()
        self._node = node
        self._knowledge = knowledge
        self._reported: dict[str, int] = {}
        self._busy: set[str] = set()

    def on_start(self) -> None:
        """Register the node; retry until it is registered."""
        self._meta = AsyncMetaClient(self, seconds=_DEADLINE)
        self._register()

    @handles(ResourceType.POD, Operation.DELETE)
    def gone(self, message: Message) -> None:
        """Record the deletion of a pod."""
        pod = message.content_as(dict[str, Any])
        self._knowledge.seen[pod["metadata"]["uid"]].is_gone = True

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        """Record the pod's version, and report it; end the pod if it is to end."""
        metadata = message.content_as(dict[str, Any])["metadata"]
        seen, version = self._knowledge.seen[metadata["uid"]], int(metadata["resourceVersion"])
        seen.name, seen.came_back = metadata["name"], seen.came_back or seen.is_gone
        for uid, other in self._knowledge.seen.items():
            if uid != metadata["uid"] and other.name == seen.name and not other.is_gone:
                other.is_gone = other.was_replaced = True
        if not seen.versions or seen.versions[-1] != version:
            seen.versions.append(version)
            seen.numbers.append(int(metadata["annotations"][VERSION]))
        if metadata.get("deletionTimestamp"):
            self._end(metadata["uid"])
        else:
            self._report(metadata["uid"])

    @handles()
    def other(self, _message: Message) -> None:
        """Ignore connection events and late answers."""

    def _register(self) -> None:
        value = msgspec.json.encode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}})
        self._meta.create(ResourceType.NODE, "", self._node, value, then=self._registered)

    def _registered(self, answer: object) -> None:
        if isinstance(answer, Exception) and getattr(answer, "retryable", False):
            self.after(_AGAIN, self._register)

    def _report(self, uid: str) -> None:
        seen = self._knowledge.seen[uid]
        number = seen.numbers[-1]
        if seen.is_gone or uid in self._busy or self._reported.get(uid) == number:
            return
        self._busy.add(uid)

        def done(answer: object) -> None:
            self._busy.discard(uid)
            if isinstance(answer, NotFoundError | ConflictError):
                return
            if isinstance(answer, Exception):
                self.after(_AGAIN, lambda: self._report(uid))
                return
            self._reported[uid] = number
            self._report(uid)

        patch = msgspec.json.encode({"metadata": {"uid": uid}, "status": {"message": str(number)}})
        self._meta.patch(ResourceType.PODPATCH, "default", seen.name, patch, then=done)

    def _end(self, uid: str) -> None:
        seen = self._knowledge.seen[uid]

        def done(answer: object) -> None:
            if isinstance(answer, Exception) and not isinstance(answer, NotFoundError | ConflictError):
                self.after(_AGAIN, lambda: self._end(uid))

        if not seen.is_gone:
            options = msgspec.json.encode({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
            self._meta.delete(ResourceType.POD, "default", seen.name, options, then=done)


class Agent:
    """One node's modules, in a hive. A context manager."""

    def __init__(self, name: str, urls: tuple[str, ...], directory: Path) -> None:
        self.name = name
        self.knowledge = Knowledge()
        self.hive = Hive(Threads())
        hub = EdgeHubSettings(url=urls[0], other_urls=urls[1:], node=name, message_qps=0.0)
        clock = self.hive.clock
        self.hive.add(MetaManager, MetaSettings(str(directory / f"{name}.db"), remote_query_timeout=2.0))
        self.hive.add(Reporter, name, self.knowledge)
        self.counters = install(
            self.hive, hub, open_outbox=lambda: open_outbox(directory / f"{name}-outbox.db", clock.now())
        )

    def __enter__(self) -> Agent:
        self.hive.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.hive.stop()
        self.hive.clock.close()
