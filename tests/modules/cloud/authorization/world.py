"""A cloud with two nodes, and what each has: n1 is honest or not, n2 is its neighbour."""

import json
from typing import Any

import msgspec

from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.api_messages import RESOURCE, Verb
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.objects import SIGNING_REQUEST

ME, NEIGHBOUR = "n1", "n2"


def _pod(whose: str, node: str) -> JsonObject:
    spec = {
        "nodeName": node,
        "serviceAccountName": f"{whose}-account",
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": f"{whose}-secret", "key": "a"}}}],
                "envFrom": [{"configMapRef": {"name": f"{whose}-config"}}],
            }
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"{whose}-claim"}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{whose}-pod", "labels": {"a": "1"}}, "spec": spec}


SERVING = {"request": SIGNING_REQUEST, "signerName": "example.com/serving", "usages": ["server auth"]}
"""The spec of a node's request for the certificate of its server."""


def _plain(kind: str, name: str, version: str = "v1", /, **members: Any) -> JsonObject:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **members}


def objects_of(whose: str, node: str) -> list[JsonObject]:
    """All that a node has, and that its pod refers to; `whose` is `mine` or `their`."""
    reference = {"name": f"{whose}-volume-secret", "namespace": "default"}
    volume: JsonObject = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": f"{whose}-claim"},
        "csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": reference},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "volumeName": f"{whose}-volume",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    attachment = {"nodeName": node, "attacher": "d", "source": {"persistentVolumeName": f"{whose}-volume"}}
    lease = _plain("Lease", node, "coordination.k8s.io/v1", spec={"holderIdentity": node})
    lease["metadata"]["namespace"] = "kube-node-lease"
    about = {"kind": "Pod", "namespace": "default", "name": f"{whose}-pod"}
    request = {**SERVING, "username": f"system:node:{node}"}
    return [
        _plain("Node", node, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        _plain("Secret", f"{whose}-secret", stringData={"a": f"{whose}-gold"}),
        _plain("Secret", f"{whose}-volume-secret", stringData={"a": f"{whose}-gold"}),
        _plain("ConfigMap", f"{whose}-config", data={"a": f"{whose}-gold"}),
        _plain("ServiceAccount", f"{whose}-account"),
        _plain("PersistentVolume", f"{whose}-volume", spec=volume),
        _plain("PersistentVolumeClaim", f"{whose}-claim", spec=claim),
        _plain("VolumeAttachment", f"{whose}-attachment", "storage.k8s.io/v1", spec=attachment),
        _plain("Event", f"{whose}-event", involvedObject=about, source={"host": node}),
        _plain("CertificateSigningRequest", f"{whose}-request", "certificates.k8s.io/v1", spec=request),
        lease,
        _pod(whose, node),
    ]


def all_objects() -> list[JsonObject]:
    """Both nodes' objects, and the ones that all may read."""
    driver = _plain("CSIDriver", "d", "storage.k8s.io/v1", spec={})
    return [*objects_of("mine", ME), *objects_of("their", NEIGHBOUR), driver]


class World:
    """edgecontroller with the objects of both nodes; n1 makes requests."""

    def __init__(self, bee: Harness) -> None:
        self.bee = bee
        self.controller = Controller(bee)
        items = self.controller.apply(*all_objects())
        assert [item.refusal for item in items if item.refusal] == []
        bee.forget()

    def find(self, kind: str, name: str, namespace: str = "default") -> JsonObject | None:
        """An object as the cloud has it."""
        return self.controller.cluster.storage.find(ObjectKey(kind, namespace, name))

    def everything(self) -> dict[str, JsonObject]:
        """All objects, to see what has changed."""
        store = self.controller.cluster.storage
        return {str(key): msgspec.json.decode(msgspec.json.encode(obj)) for key, obj in store._objects.items()}

    def foreign(self) -> dict[str, JsonObject]:
        """All that is not n1's to change."""
        mine = ("pod/default/mine-pod", "node/n1", "lease/kube-node-lease/n1", "event/default/mine-event")
        return {key: obj for key, obj in self.everything().items() if key not in mine}

    def call(self, **call: Any) -> ApiResult:
        """What a request of n1's metaserver comes to, as dynamiccontroller puts it."""
        wanted = ApiCall(**{"api_version": "v1", "node": ME, **call})
        request = self.bee.message(RESOURCE, Verb.CALL, wanted, source="dynamiccontroller")
        return self.bee.ask(EdgeController.name, request).content_as(ApiResult)

    def says(self, resource: str, operation: str, content: Any = None) -> Any:
        """What n1 is answered to a message; None: nothing."""
        request = self.controller.asks(resource, operation, content)
        answers = [message for message in self.bee.sent_to("cloudhub") if message.parent_id == request.id]
        return json.loads(bytes(answers[0].content_raw())) if answers else None


def code_of(result: ApiResult) -> int:
    """The code of a refusal; 200 without one."""
    return 200 if result.refusal is None else int(result.refusal["code"])
