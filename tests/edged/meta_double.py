"""metamanager and the cloud behind it, in memory, as edged sees them: what tests of edged alone run against."""

import json
from typing import Any

import msgspec

from beehive import Clock, Message, ModuleName
from beehive.names import OK

NOT_FOUND = {"ErrStatus": {"status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"}}
_EXISTS = {"ErrStatus": {"status": "Failure", "reason": "AlreadyExists", "code": 409, "message": "exists"}}


class MetaDouble:
    """Answers edged's questions; `connected` says whether the cloud is there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.connected = True
        self.objects: dict[str, dict[str, Any]] = {}
        """What the store has, by resource."""
        self.cloud: dict[str, dict[str, Any]] = {}
        """Nodes and leases of the cloud, by resource."""
        self.patches: dict[str, list[dict[str, Any]]] = {}
        """Patches that were taken, by resource."""
        self.deletions: list[str] = []
        """Resources that edged asked the cloud to delete."""
        self.refuse: dict[str, dict[str, Any]] = {}
        """Answers in the place of the right one, by resource."""
        self._version = 1000

    def __call__(self, message: Message) -> Message | None:
        """The answer to one question."""
        resource, operation = message.route.resource, message.route.operation
        if resource in self.refuse:
            return message.reply(self._clock, self.refuse[resource], source="edgecontroller")
        kind = resource.split("/")[1]
        if operation == "query" and kind == "pod" and resource in self.cloud:
            return message.reply(self._clock, self.cloud[resource], source="edgecontroller")
        if operation == "query" and kind in ("pod", "configmap", "secret"):
            return message.reply(self._clock, self._stored(resource), source=ModuleName.METAMANAGER)
        if not self.connected:
            text = "failed to process remote: not connected"
            return message.error(self._clock, text, source=ModuleName.METAMANAGER)
        answer = getattr(self, f"_{operation}")(resource, message)
        return message.reply(self._clock, answer, source="edgecontroller")

    def statuses(self, name: str) -> list[dict[str, Any]]:
        """The statuses that were reported for a pod of namespace default, oldest first."""
        return [patch["status"] for patch in self.patches.get(f"default/podpatch/{name}", [])]

    def phases(self, name: str) -> list[str]:
        """The phases among them."""
        return [status["phase"] for status in self.statuses(name) if "phase" in status]

    def _stored(self, resource: str) -> list[str]:
        if resource.count("/") == 1:
            kind = f"/{resource.split('/')[1]}/"
            return [json.dumps(value) for key, value in self.objects.items() if kind in key]
        return [json.dumps(self.objects[resource])] if resource in self.objects else []

    def _insert(self, resource: str, message: Message) -> dict[str, Any]:
        if resource in self.cloud:
            return {"Object": None, "Err": _EXISTS}
        return {"Object": self._keep(resource, message.content_as(dict)), "Err": None}

    def _update(self, resource: str, message: Message) -> dict[str, Any]:
        return {"Object": self._keep(resource, message.content_as(dict)), "Err": None}

    def _query(self, resource: str, message: Message) -> dict[str, Any]:
        if resource not in self.cloud:
            return {"Object": None, "Err": NOT_FOUND}
        return self.cloud[resource]

    def _patch(self, resource: str, message: Message) -> dict[str, Any]:
        self.patches.setdefault(resource, []).append(msgspec.json.decode(message.content_as(str)))
        self._version += 1
        return {"Object": {"metadata": {"resourceVersion": str(self._version)}}, "Err": None}

    def _delete(self, resource: str, message: Message) -> str:
        self.deletions.append(resource)
        return OK

    def _keep(self, resource: str, value: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        metadata = {"uid": f"uid-of-{resource}", **value["metadata"], "resourceVersion": str(self._version)}
        self.cloud[resource] = {**value, "metadata": metadata}
        return self.cloud[resource]
