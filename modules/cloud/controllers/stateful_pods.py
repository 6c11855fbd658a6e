"""The pods of a StatefulSet: names, ordinals and claims (KCM 1.32, `stateful_set_utils.go`)."""

from collections.abc import Iterable, Iterator
from typing import Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_kind, uid_of, version_of
from modules.cloud.controllers.plan import NORMAL, WARNING, EventNote, PlannedWrite, create, patch
from modules.cloud.controllers.pods import owner_reference, pod_of
from modules.cloud.controllers.revisions import HASH
from modules.cloud.controllers.view import View

_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_INDEX: Final = "apps.kubernetes.io/pod-index"


def ordinal_of(pod: JsonObject, workload: JsonObject) -> int | None:
    """Return the ordinal of a pod, or None if its name is not of the StatefulSet."""
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


def identity(pod: JsonObject) -> PlannedWrite | None:
    """Return the write of the labels of a pod's identity, which somebody has taken away; None if it has them."""
    name = str(pod["metadata"]["name"])
    if (pod["metadata"].get("labels") or {}).get(_POD_NAME) == name:
        return None
    return patch(pod, {"metadata": {"labels": {_POD_NAME: name, _INDEX: name.rpartition("-")[2]}}})


def claims_of(workload: JsonObject) -> list[JsonObject]:
    """Return the templates of claims."""
    claims = workload["spec"].get("volumeClaimTemplates") or ()
    return [claim for claim in claims if (claim.get("metadata") or {}).get("name")]


def claim_name(claim: JsonObject, pod: str) -> str:
    """Return the name of a pod's claim."""
    return f"{claim['metadata']['name']}-{pod}"


def missing_claims(view: View, workload: JsonObject, ordinal: int) -> Iterator[PlannedWrite]:
    """Yield the creations of the claims of a pod."""
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


def retention_writes(view: View, workload: JsonObject, pods: Iterable[JsonObject], wanted: range) -> list[PlannedWrite]:
    """Return the writes after which the claims of pods go with the StatefulSet, or with a pod that is one too many,
    according to `persistentVolumeClaimRetentionPolicy`: the garbage collector deletes them by their owners. A claim
    that has another controller stays as it is.
    """
    policy = workload["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    found = []
    for pod in pods:
        is_surplus = ordinal_of(pod, workload) not in wanted
        owner = None
        if is_surplus and policy.get("whenScaled") == "Delete":
            owner = pod
        elif policy.get("whenDeleted") == "Delete":
            owner = workload
        for claim in _present_claims(view, workload, str(pod["metadata"]["name"])):
            before: list[JsonObject] = claim["metadata"].get("ownerReferences") or []
            others = [one for one in before if one.get("uid") not in (uid_of(workload), uid_of(pod))]
            after = [*others, *([owner_reference(owner)] if owner is not None else [])]
            if {one.get("uid") for one in before} != {one.get("uid") for one in after} and not _is_controlled(others):
                changes = {"ownerReferences": after or None, "resourceVersion": version_of(claim)}
                found.append(patch(claim, {"metadata": changes}))
    return found


def waits_for_former(view: View, workload: JsonObject, ordinal: int) -> bool:
    """Return whether a former pod of the name of a pod to be made, or its claim, is about to go."""
    name = f"{workload['metadata']['name']}-{ordinal}"
    former = view.find(ObjectKey("Pod", workload["metadata"]["namespace"], name))
    if former is not None and is_being_deleted(former):
        return True
    claims = list(_present_claims(view, workload, name))
    owners = (one for claim in claims for one in claim["metadata"].get("ownerReferences") or ())
    return any(map(is_being_deleted, claims)) or any((key_kind(one), one["name"]) == ("Pod", name) for one in owners)


def _present_claims(view: View, workload: JsonObject, pod: str) -> Iterator[JsonObject]:
    for template in claims_of(workload):
        key = ObjectKey("PersistentVolumeClaim", workload["metadata"]["namespace"], claim_name(template, pod))
        found = view.find(key)
        if found is not None:
            yield found


def _is_controlled(references: Iterable[JsonObject]) -> bool:
    return any(one.get("controller") for one in references)


def _matched(workload: JsonObject) -> dict[str, str]:
    found: dict[str, str] = (workload["spec"].get("selector") or {}).get("matchLabels") or {}
    return found
