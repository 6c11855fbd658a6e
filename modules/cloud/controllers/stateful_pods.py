"""The pods of a StatefulSet: names, ordinals and claims (KCM 1.32, `stateful_set_utils.go`)."""

from collections.abc import Iterator
from typing import Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.controllers.plan import NORMAL, WARNING, EventNote, PlannedWrite, create
from modules.cloud.controllers.pods import pod_of
from modules.cloud.controllers.revisions import HASH
from modules.cloud.controllers.view import View

_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_INDEX: Final = "apps.kubernetes.io/pod-index"


def ordinal_of(pod: JsonObject, workload: JsonObject) -> int | None:
    """Return the ordinal of a pod, or None for one that is not of the StatefulSet by its name."""
    parent, dash, text = str(pod["metadata"]["name"]).rpartition("-")
    return whole_number(text) if dash and parent == workload["metadata"]["name"] else None


def pod_for(workload: JsonObject, template: JsonObject, ordinal: int, revision: str) -> JsonObject:
    """Return a new pod with an identity: its name, host name and claims."""
    spec, set_name = workload["spec"], workload["metadata"]["name"]
    name = f"{set_name}-{ordinal}"
    pod = pod_of(template, workload)
    metadata: JsonObject = pod["metadata"]
    labels = {**(metadata.get("labels") or {}), _POD_NAME: name, _INDEX: str(ordinal), HASH: revision}
    given: JsonObject = pod["spec"]
    claims = {str(claim["metadata"]["name"]): claim_name(claim, name) for claim in claims_of(workload)}
    volumes = [volume for volume in given.get("volumes") or () if volume.get("name") not in claims]
    volumes += [{"name": of, "persistentVolumeClaim": {"claimName": claim}} for of, claim in claims.items()]
    made = {**given, "hostname": name, **({"volumes": volumes} if volumes else {})}
    if spec.get("serviceName"):
        made["subdomain"] = spec["serviceName"]
    return {**pod, "metadata": {**metadata, "name": name, "labels": labels}, "spec": made}


def claims_of(workload: JsonObject) -> list[JsonObject]:
    """Return the templates of claims."""
    return [claim for claim in workload["spec"].get("volumeClaimTemplates") or () if claim["metadata"].get("name")]


def claim_name(claim: JsonObject, pod: str) -> str:
    """Return the name of a pod's claim."""
    return f"{claim['metadata']['name']}-{pod}"


def missing_claims(view: View, workload: JsonObject, ordinal: int) -> Iterator[PlannedWrite]:
    """Yield the creations of the claims of a pod; claims stay when their pod goes."""
    pod, namespace = f"{workload['metadata']['name']}-{ordinal}", workload["metadata"]["namespace"]
    for claim in claims_of(workload):
        name = claim_name(claim, pod)
        if view.find(ObjectKey("PersistentVolumeClaim", namespace, name)) is not None:
            continue
        labels = {**(claim["metadata"].get("labels") or {}), **_matched(workload)}
        what = f"Claim {name} Pod {pod} in StatefulSet {workload['metadata']['name']}"
        yield create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "spec": claim.get("spec") or {},
            },
            done=EventNote(NORMAL, "SuccessfulCreate", f"create {what} success"),
            refused=EventNote(WARNING, "FailedCreate", f"create {what} failed error: {{why}}"),
        )


def _matched(workload: JsonObject) -> dict[str, str]:
    found: dict[str, str] = (workload["spec"].get("selector") or {}).get("matchLabels") or {}
    return found
