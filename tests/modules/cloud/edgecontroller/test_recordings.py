"""A real edge's requests, played to edgecontroller: each is answered as the real cloudcore answered it.

Compared are the route, which header fields there are, and the form of the content (keys and types), not the values that
differ from run to run.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.decoding import convert
from beehive.message import Message
from beehive.names import Operation
from beehive.testing import Harness
from modules.apimachinery.kinds import key_of, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.client.calls import APPLY, ApiCall
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.messages import ConnectEvent
from tests.interop.forms import form_of
from tests.modules.cloud.edgecontroller.controller import add_api_server
from tests.modules.cloud.objects import in_memory_states
from tests.modules.traces import Step, recordings, steps_of

NODE = "lab-edge"
_KIND_OF = {"pod": "Pod", "podpatch": "Pod", "node": "Node", "nodepatch": "Node", "lease": "Lease"}


def as_json(message: Message) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(message))
    return decoded


def stored(obj: dict[str, Any], resource_type: str) -> dict[str, Any]:
    kind = kind_named(_KIND_OF[resource_type]) if resource_type in _KIND_OF else kind_named(obj["kind"])
    meta = {"uid": "seeded", "resourceVersion": "1", **obj["metadata"]}
    return {"status": {}, **obj, "kind": kind.name, "apiVersion": kind.api_version, "metadata": meta}


def prepare(cluster: Cluster, request: Step, answer: Step) -> None:
    """Puts into the store what the real cloud knew when it answered, where the recording did not show it before."""
    resource_type = request.resource.split("/")[1]
    refusal = answer.content.get("Err") if isinstance(answer.content, dict) else None
    if refusal is not None and refusal["ErrStatus"]["reason"] == "AlreadyExists":
        cluster.storage.restore([stored(request.content, resource_type)])
    elif refusal is not None or resource_type == "serviceaccounttoken" or request.operation in ("insert", "delete"):
        return
    elif resource_type == "lease" and request.operation == "update":
        cluster.storage.restore([stored(request.content, resource_type)])
    elif request.operation in ("query", "patch"):
        known = answer.content.get("Object", answer.content)
        obj = stored(known, resource_type)
        present = cluster.storage.find(key_of(obj))
        if request.operation == "query" or present is None or present["metadata"]["uid"] == "seeded":
            cluster.storage.restore([obj])


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_every_request_is_answered_as_the_real_cloudcore_did(path: Path) -> None:
    steps = list(steps_of(path))
    answers = {step.parent: step for step in steps if not step.from_edge and step.parent}
    compared = 0
    with Harness() as bee:
        cluster = Cluster(bee.clock)
        bee.add(EdgeController, add_api_server(bee, cluster), in_memory_states())
        bee.start()
        for step in steps:
            if not step.from_edge and not step.parent:
                if step.operation in ("insert", "update") and "/pod/" in step.resource:
                    cluster.storage.restore([step.content])
                continue
            answer = answers.get(step.id)
            if not step.from_edge or answer is None:
                continue
            prepare(cluster, step, answer)
            bee.forget()
            recorded = convert(step.message, Message)
            bee.send(EdgeController.name, recorded.with_route(resource=f"node/{NODE}/{step.resource}"))
            given = [as_json(message) for message in bee.sent_to("cloudhub") if message.parent_id == step.id]
            assert len(given) == 1, step.resource
            compare(given[0], answer)
            compared += 1
    assert compared == len(answers)


def compare(given: dict[str, Any], recorded: Step) -> None:
    expected = {**recorded.message["route"], "resource": f"node/{NODE}/{recorded.resource}"}
    assert given["route"] == expected
    assert given["header"].keys() == recorded.message["header"].keys()
    ours, theirs = form_of(given["content"]), form_of(recorded.content)
    assert theirs - ours == set(), "the recorded answer has this, ours has not"
    assert {path for path in ours - theirs if "generation" not in path} == set(), "ours has this, the recorded not"


def inserted_pods() -> list[Step]:
    steps = (step for path in recordings() for step in steps_of(path))
    return [step for step in steps if not step.from_edge and step.operation == "insert" and "/pod/" in step.resource]


@pytest.mark.parametrize("recorded", inserted_pods(), ids=lambda step: f"{step.resource}@{step.id[:4]}")
def test_a_pod_from_the_same_manifest_is_sent_in_the_same_form(recorded: Step) -> None:
    annotations = recorded.content["metadata"]["annotations"]
    manifest = json.loads(annotations["kubectl.kubernetes.io/last-applied-configuration"])
    with Harness() as bee:
        bee.add(EdgeController, add_api_server(bee, Cluster(bee.clock)), in_memory_states())
        bee.start()
        event = ConnectEvent("connected", 0, NODE, "link")
        bee.send(EdgeController.name, bee.message(f"node/{NODE}", "connected", event, source="cloudhub"))
        place, name = manifest["metadata"].get("namespace", "default"), manifest["metadata"]["name"]
        call = ApiCall(
            verb="patch", api_version="v1", plural="pods", namespace=place, name=name, patch_type=APPLY, body=manifest
        )
        bee.ask(ApiServer.name, bee.message("cloudcore/objects", "call", call, source="control"))
        bee.settle()
        (sent,) = [as_json(message) for message in bee.sent_to("cloudhub")]
    compare(sent, recorded)
    assert sent["route"]["operation"] == Operation.INSERT
