"""An API server's objects with a garbage collector that acts after each call, as in the module."""

from typing import Any

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.apiserver.api_calls import DryRunError, serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.client.calls import ApiCall

POD: JsonObject = {"spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "busybox"}]}}


class World:
    """The verbs, and the collector."""

    def __init__(self) -> None:
        self.cluster = Cluster(Simulation(0).clock)
        self.collector = GarbageCollector(self.cluster)
        self.rounds = 0
        """Parts that were collected."""

    def __call__(self, verb: str, plural: str, name: str = "", body: Any = None, **fields: Any) -> JsonObject:
        """Carry out a call, and what follows from it."""
        api_version = fields.pop("api_version", "v1")
        call = ApiCall(
            verb=verb, api_version=api_version, plural=plural, namespace=fields.pop("namespace", "ns"), name=name,
            body=body, **fields,
        )  # fmt: skip
        try:
            result = serve(self.cluster, call)
        except DryRunError as end:
            for event in self.cluster.storage.roll_back():
                self.collector.roll_back(event)
            result = end.result
        self.settle()
        return result.refusal or result.object or {}

    def settle(self, most: int = 100) -> None:
        """Collect until nothing is left to do."""
        self._note()
        while self.collector.has_work and most:
            self.collector.collect()
            self._note()
            self.rounds, most = self.rounds + 1, most - 1
        self.cluster.storage.set_savepoint()

    def _note(self) -> None:
        for event in self.cluster.storage.drain_events():
            self.collector.handle_event(event)

    def make(self, name: str, *owners: JsonObject, blocks: bool = False, **fields: Any) -> JsonObject:
        """Create a ConfigMap, or another object, with owners."""
        plural, metadata = fields.pop("plural", "configmaps"), fields.pop("metadata", {})
        references = [
            {
                "apiVersion": one["apiVersion"],
                "kind": one["kind"],
                "name": one["metadata"]["name"],
                "uid": one["metadata"]["uid"],
                **({"blockOwnerDeletion": True} if blocks else {}),
            }
            for one in owners
        ]
        owned = {"ownerReferences": references} if references else {}
        body = {**fields.pop("body", {}), "metadata": {"name": name, **owned, **metadata}}
        return self("create", plural, body=body, **fields)

    def names(self) -> list[str]:
        """The names of all objects but Events and namespaces."""
        return sorted(key.name for key in self.cluster.storage if key.kind not in ("Event", "Namespace"))

    def get(self, name: str, kind: str = "ConfigMap", namespace: str = "ns") -> JsonObject:
        """An object, or {}."""
        return self.cluster.storage.find(ObjectKey(kind, namespace, name)) or {}
