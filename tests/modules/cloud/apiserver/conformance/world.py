"""The API server as a client of Kubernetes' conformance tests sees it: paths, verbs, watches, and garbage collection.

The tests beside this module have the names of Kubernetes' own (those with [Conformance]) as their docstrings. They are
written for this API server alone: what needs running containers, webhooks or an aggregated API server is not here.
"""

import json
from collections.abc import Callable
from typing import Any

from beehive.clock import Clock
from beehive.http.responses import Stream
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.client.calls import MERGE
from tests.modules.cloud.apiserver.endpoints.serving import Serving, Watcher, on_one_node

Json = dict[str, Any]

LABELS: Json = {"conformance": "yes"}
SELECTED: dict[str, Any] = {"labelSelector": "conformance=yes"}
CONTAINERS: list[Json] = [{"name": "main", "image": "busybox:1.35"}]
TEMPLATE: Json = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}


def path_of(kind: str, name: str = "", namespace: str = "default", subresource: str = "") -> str:
    """Return the path of a resource, `apps/v1/deployments` for instance, or of an object of it."""
    version, _, plural = kind.rpartition("/")
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(part for part in (f"{root}{inside}", plural, name, subresource) if part)


class World(Serving):
    """The API, and what follows from deletions after each request, as in the module."""

    def __init__(self, make_cluster: Callable[[Clock], Cluster] = on_one_node) -> None:
        super().__init__(make_cluster=make_cluster)
        self.collector = GarbageCollector(self.cluster)
        make_system_objects(self.cluster)
        self.noted()

    def noted(self) -> None:
        """Pass changes to the history, to watches and to the collector, until it has nothing left to do."""
        while True:
            for event in self.cluster.storage.drain_events():
                self.subscriptions.publish(self.history.record(event))
                self.collector.handle_event(event)
            self.cluster.storage.set_savepoint()
            if not self.collector.has_work:
                return
            self.collector.collect()

    def request(self, method: str, path: str, body: Any = None, code: int = 200, **query: Any) -> Json:
        """Return the answer to a request, which has this status."""
        media = query.pop("media", MERGE if method == "PATCH" else "application/json")
        reply = self.ask(method, path, body, media, **query)
        found: Json = json.loads(reply.body)
        assert reply.status == code, found
        return found

    def create(self, path: str, body: Json) -> Json:
        """Create an object."""
        return self.request("POST", path, body, 201)

    def get(self, path: str, **query: Any) -> Json:
        """Return an object, or a list."""
        return self.request("GET", path, **query)

    def gone(self, path: str) -> bool:
        """Return whether there is no such object."""
        return self.ask("GET", path).status == 404

    def names(self, path: str, **query: Any) -> list[str]:
        """Return the names of a list's objects."""
        return [each["metadata"]["name"] for each in self.get(path, **query)["items"]]

    def events(self, path: str, *acts: Callable[[], object], **query: str) -> list[tuple[str, Json]]:
        """Return the types and objects of a watch during which something is done."""
        reply = self.reply("GET", path, watch="true", **query)
        assert isinstance(reply, Stream)
        lines = b"".join(reply.pieces(Watcher(*acts))).splitlines()
        reply.done()
        return [(each["type"], each["object"]) for each in map(json.loads, lines)]

    def supports_operations(self, kind: str, made: Json, namespace: str = "default", *, status: Json | None) -> None:
        """Check discovery, and that a resource has all verbs: create, get, list, watch, update, patch, delete and
        deletecollection; and the subresource `status` with get, update and patch, if there is one.

        Args:
            kind: the path of the resource, such as `apps/v1/deployments`.
            made: an object, without a name.
            namespace: its namespace; "" for a kind without.
            status: the status to set; None: there is no such subresource.
        """
        group_version, _, plural = kind.rpartition("/")
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        listed = {each["name"]: each["verbs"] for each in self.get(root)["resources"]}
        assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} == {*listed[plural]}
        path, one = path_of(kind, "", namespace), path_of(kind, "one", namespace)
        first = self.create(path, {**made, "metadata": {"name": "one", "labels": LABELS}})
        self.create(path, {**made, "metadata": {"name": "two", "labels": LABELS}})
        assert self.names(path, **SELECTED) == ["one", "two"]
        if namespace:
            assert self.names(path_of(kind, "", ""), **SELECTED) == ["one", "two"]
        patched = {"metadata": {"annotations": {"patched": "yes"}}}
        version = self.get(path)["metadata"]["resourceVersion"]
        told = self.events(path, lambda: self.request("PATCH", one, patched), resourceVersion=version, **SELECTED)
        assert [(each, obj["metadata"]["annotations"]) for each, obj in told] == [("MODIFIED", {"patched": "yes"})]
        stored = self.get(one)
        assert stored["metadata"]["uid"] == first["metadata"]["uid"]
        stored["metadata"]["annotations"]["updated"] = "yes"
        assert self.request("PUT", one, stored)["metadata"]["annotations"] == {"patched": "yes", "updated": "yes"}
        self.request("PUT", one, {**stored, "metadata": {**stored["metadata"], "resourceVersion": "1"}}, 409)
        if status is not None:
            self._has_status(f"{plural}/status", listed, one, status)
        told = self.events(path, lambda: self.ask("DELETE", one), resourceVersion=self._version(path))
        assert ("DELETED", "one") in [(each, obj["metadata"]["name"]) for each, obj in told]
        assert self.names(path, **SELECTED) == ["two"]
        self.request("DELETE", path, **SELECTED)
        assert self.names(path, **SELECTED) == []

    def _has_status(self, resource: str, listed: dict[str, list[str]], one: str, status: Json) -> None:
        assert {*listed[resource]} == {"get", "patch", "update"}
        whole = self.get(f"{one}/status")
        assert whole["metadata"]["name"] == "one"
        changed = self.request("PUT", f"{one}/status", {**whole, "status": {**whole.get("status", {}), **status}})
        assert status.items() <= changed["status"].items()
        annotated = {"metadata": {"annotations": {"of-status": "yes"}}, "status": status}
        changed = self.request("PATCH", f"{one}/status", annotated)
        assert status.items() <= self.get(f"{one}/status")["status"].items()
        assert changed.get("spec") == whole.get("spec")

    def _version(self, path: str) -> str:
        return str(self.get(path)["metadata"]["resourceVersion"])
