"""metamanager and the cloud behind it, in memory, as edged sees them: what tests of edged alone run against."""

import json
from typing import Any

import msgspec

from beehive import Clock, Message, ModuleName
from beehive.names import OK

NOT_FOUND = {"ErrStatus": {"status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"}}
CONFLICT = {"ErrStatus": {"status": "Failure", "reason": "Conflict", "code": 409, "message": "another uid"}}
UNCHANGED_UID = {
    "ErrStatus": {
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
        "message": 'Pod "web" is invalid: metadata.uid: Invalid value: "a": field is immutable',
    }
}
"""kube-apiserver's answer to a patch of a pod that has another uid."""
_NOT_CONNECTED = "failed to process remote: not connected"
_EXISTS = {"ErrStatus": {"status": "Failure", "reason": "AlreadyExists", "code": 409, "message": "exists"}}


class MetaDouble:
    """Answers edged's questions; `connected` says whether the cloud is there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.connected = True
        self.complete = True
        """Whether the store says that it knows all pods."""
        self.conflict = CONFLICT
        """The cloud's answer for a pod that has another uid."""
        self.questions: list[str] = []
        """Uids of pods that the cloud was asked for."""
        self.objects: dict[str, dict[str, Any]] = {}
        """What the store has, by resource."""
        self.cloud: dict[str, dict[str, Any]] = {}
        """Nodes and leases of the cloud, and pods that the store does not know, by resource."""
        self.patches: dict[str, list[dict[str, Any]]] = {}
        """Patches that were taken, by resource."""
        self.deletions: list[str] = []
        """Resources that edged asked the cloud to delete."""
        self.events: dict[str, dict[str, Any]] = {}
        """Events that were recorded, by resource, in the order of their first time."""
        self.refuse: dict[str, dict[str, Any]] = {}
        """Answers in the place of the right one, by resource."""
        self._version = 1000

    def __call__(self, message: Message) -> Message | None:
        """The answer to one question."""
        resource, operation = message.route.resource, message.route.operation
        if resource in self.refuse:
            return message.reply(self._clock, self.refuse[resource], source="edgecontroller")
        kind = resource.split("/")[1]
        if kind == "store":
            return self._about_store(operation, message)
        if operation == "query" and kind == "pod" and resource not in self.objects and resource.count("/") == 2:
            return self._cloud_pod(resource, message)
        if kind == "event":
            self.events[resource] = message.content_as(dict)
            return None
        if operation == "query" and (kind in ("pod", "configmap", "secret", "csidriver") or resource == "null/node"):
            return message.reply(self._clock, self._stored(resource), source=ModuleName.METAMANAGER)
        if not self.connected:
            return message.error(self._clock, _NOT_CONNECTED, source=ModuleName.METAMANAGER)
        answer = getattr(self, f"_{operation}")(resource, message)
        return message.reply(self._clock, answer, source="edgecontroller")

    def statuses(self, name: str) -> list[dict[str, Any]]:
        """The statuses that were reported for a pod of namespace default, oldest first."""
        return [patch["status"] for patch in self.patches.get(f"default/podpatch/{name}", [])]

    def phases(self, name: str) -> list[str]:
        """The phases among them."""
        return [status["phase"] for status in self.statuses(name) if "phase" in status]

    def _about_store(self, operation: str, message: Message) -> Message:
        if operation == "update":
            self.complete = True
            return message.reply(self._clock, OK)
        return message.reply(self._clock, ["{}"] if self.complete else [], source=ModuleName.METAMANAGER)

    def _cloud_pod(self, resource: str, message: Message) -> Message:
        """A pod that the store does not know: what metamanager makes of the cloud's answer."""
        if not self.connected:
            return message.error(self._clock, _NOT_CONNECTED, source=ModuleName.METAMANAGER)
        asked = {} if message.content is None else message.content_as(dict)
        uid = asked["metadata"]["uid"] if asked else ""
        self.questions.append(uid)
        pod = self.cloud.get(resource)
        if pod is None or uid not in ("", pod["metadata"]["uid"]):
            error = NOT_FOUND if pod is None else self.conflict
            return message.reply(self._clock, {"Object": None, "Err": error}, source="edgecontroller")
        self.objects[resource] = pod
        return message.reply(self._clock, {"Object": pod, "Err": None}, source="edgecontroller")

    def told(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the events about a pod or node, oldest first."""
        about = [event for event in self.events.values() if event["involvedObject"]["name"] == name]
        return [(event["reason"], event["message"]) for event in about]

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
        uid = f"uid-of-{resource.replace('/', '-')}"
        metadata = {"uid": uid, **value["metadata"], "resourceVersion": str(self._version)}
        self.cloud[resource] = {**value, "metadata": metadata}
        return self.cloud[resource]
