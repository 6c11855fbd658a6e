"""cloudcore's state of nodes as objects of the simulated cluster: NodeStates, with `cloudcore run --state cluster`."""

from copy import deepcopy
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject, Kind
from modules.cloud.client.calls import ApiCall
from modules.cloud.coordination.lease_settings import NAMESPACE
from modules.cloud.edgecontroller.state.node_states import API_VERSION, KIND, PLURAL, read
from modules.lab.simulate.api_server import SimulatedApiServer

NODE_STATE: Final = Kind(KIND, API_VERSION, PLURAL, is_custom=True)

_GROUP, _, _VERSION = API_VERSION.partition("/")
DEFINITION: Final[JsonObject] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{_GROUP}"},
    "spec": {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()},
        "versions": [
            {
                "name": _VERSION,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}
"""The definition of NodeStates, as in deploy/cloudcore.yaml, but that it takes any spec: a damaged one, too."""

DAMAGES: Final[tuple[JsonObject, ...]] = (
    {"objects": "damaged"},
    {"objects": ""},
    {"objects": 3},
    {"epoch": 99},
    {"epoch": -1},
    {"epoch": "damaged"},
    {"nodeUID": "another"},
    {"nodeUID": ""},
    {"cloudcore": "another"},
)
"""Fields of a NodeState after it was damaged."""

_KEPT: Final = ("name", "namespace", "ownerReferences")
"""Metadata of a copy; the API server gives the rest."""


class StateObjects:
    """The NodeStates of a cluster, as an administrator reads and writes them.

    Args:
        api: the API server.
    """

    def __init__(self, api: SimulatedApiServer) -> None:
        self._api = api

    def copies(self) -> list[JsonObject]:
        """Return a copy of all NodeStates; none while the API server does not run."""
        if self._api.process is None:
            return []
        answer = self._api.call(_call("list")).object or {}
        return deepcopy(answer.get("items") or [])

    def replace(self, by: list[JsonObject]) -> None:
        """Delete all NodeStates, and make others."""
        for each in self.copies():
            self.remove(each["metadata"]["name"])
        for each in by if self._api.process is not None else ():
            kept = {key: value for key, value in each["metadata"].items() if key in _KEPT}
            self._api.call(_call("create", body={**each, "metadata": kept}))

    def remove(self, node: str) -> None:
        """Delete the NodeState of a node, if there is one."""
        if self._api.process is not None:
            self._api.call(_call("delete", name=node))

    def damage(self, number: int) -> str:
        """Damage a NodeState; return a text about the damage, empty if there is no NodeState."""
        which, what = divmod(number, len(DAMAGES))
        states = self.copies()
        if not states:
            return ""
        state = states[which % len(states)]
        state["spec"] |= DAMAGES[what]
        self._api.call(_call("update", name=state["metadata"]["name"], body=state))
        return f"{PLURAL}: {DAMAGES[what]} in {state['metadata']['name']}"

    def pods(self) -> list[tuple[str, str]]:
        """Return uids of pods that nodes have or are to delete, with the nodes."""
        found = []
        for each in self.copies():
            stored = read(each)
            for uid, sync in stored.syncs.items() if stored is not None else ():
                if sync.key.kind == "Pod" and not sync.deleted:
                    found.append((uid, each["metadata"]["name"]))
        return found


def _call(verb: str, name: str = "", **fields: Any) -> ApiCall:
    return ApiCall(verb=verb, api_version=API_VERSION, plural=PLURAL, namespace=NAMESPACE, name=name, **fields)
