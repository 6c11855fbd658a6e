"""The rules of a pod's claims (kube-scheduler 1.32, `plugins/volumebinding` without the capacities that drivers report,
and the mode ReadWriteOncePod of `plugins/volumerestrictions`). Every claim is bound before its pod has its node.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from heapq import merge
from typing import Final

import msgspec

from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, uid_of
from modules.apimachinery.pod_references import claims_of, ephemeral_volumes_of, why_not_for
from modules.apimachinery.pods.node_selector import selector_matches
from modules.apimachinery.types.persistent import VolumeNodeAffinity
from modules.apimachinery.types.scheduling import NodeSelector, NodeSelectorTerm
from modules.cloud.apiserver.volume_binder import (
    IN_TREE,
    Find,
    bound,
    candidates,
    class_of,
    is_bound,
    is_delayed,
    provisioned_for,
    requested_bytes,
    selected_node,
)

ELSEWHERE: Final = "node(s) had volume node affinity conflict"
NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
TAKEN: Final = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
_ONE_POD: Final = "ReadWriteOncePod"
_ANY: Final = ("", "")
_MOST_LOOKS: Final = 50_000
"""Looks of a pod's claims at volumes, of about 10 µs each; one claim may look at all volumes. The API server stands
still meanwhile: a pod that needs more fits nowhere.
"""


class _Reachable:
    """Volumes, the best first, by the labels of the nodes that reach them: each local volume has a node of its own."""

    def __init__(self, volumes: Iterable[JsonObject]) -> None:
        self._by_label: defaultdict[tuple[str, str], list[tuple[int, JsonObject, NodeSelector | None]]] = defaultdict(
            list
        )
        """With their ranks; `_ANY` has those whose nodes are not named by one label."""
        self.all = list[tuple[str, NodeSelector | None]]()
        """Their uids and selectors."""
        for rank, volume in enumerate(volumes):
            selector = _selector_of(volume)
            self.all.append((uid_of(volume), selector))
            for label in _labels_in(selector):
                self._by_label[label].append((rank, volume, selector))
        self._keys = {key for key, _ in self._by_label}

    def at(self, node: str, labels: Mapping[str, str]) -> Iterator[JsonObject]:
        """Yield the volumes that a node reaches."""
        found = (self._by_label.get((key, labels.get(key, "")), ()) for key in self._keys)
        for _, volume, selector in merge(*found, key=lambda each: each[0]):
            if selector is None or selector_matches(selector, node, labels):
                yield volume


class DelayedClaims:
    """The claims of a pod that get their volumes with its node (`WaitForFirstConsumer`).

    Args:
        pod: the pod.
        find: returns an object, or None.
        list_volumes: returns all PersistentVolumes.
    """

    def __init__(self, pod: JsonObject, find: Find, list_volumes: Callable[[], Iterable[JsonObject]]) -> None:
        found = (find(key) for key in dict.fromkeys(claims_of(pod)))
        claims = sorted((claim for claim in found if claim and is_delayed(claim, find)), key=requested_bytes)
        volumes = [*list_volumes()] if claims else []
        self._are_too_many = len(claims) > 1 and len(claims) * len(volumes) > _MOST_LOOKS
        claims = [] if self._are_too_many else claims
        self._claims = [(claim, _Reachable(candidates(claim, volumes)), class_of(claim, find)) for claim in claims]
        parts = [(uid_of(claim), selected_node(claim), found.all, of) for claim, found, of in self._claims]
        self.decisive = sha256(msgspec.json.encode(parts)).digest() if claims else b"-" * self._are_too_many
        """The digest of all that decides which nodes can have the volumes."""

    def at(self, node: str, labels: Mapping[str, str]) -> tuple[JsonObject, ...] | None:
        """Return the claims with their volumes as they are to be stored when the pod gets a node; None if that cannot
        have them. A claim for which no volume is there is to be provisioned.
        """
        if self._are_too_many:
            return None
        taken, changed = set[str](), list[JsonObject]()
        for claim, volumes, storage_class in self._claims:
            selected = selected_node(claim)
            reached = (each for each in volumes.at(node, labels) if each["metadata"]["name"] not in taken)
            volume = next(reached, None) if selected is None else None
            if volume is not None:
                taken.add(volume["metadata"]["name"])
                changed += bound(claim, volume)
            elif selected in (None, node) and _can_provision(storage_class, labels):
                changed.append(provisioned_for(claim, node))
            else:
                return None
        return tuple(changed)


def _can_provision(storage_class: JsonObject, labels: Mapping[str, str]) -> bool:
    """Return whether the provisioner of a class can make a volume for a node; Kubernetes' `allowedTopologies` are terms
    of which one must match.
    """
    provisioner = storage_class.get("provisioner")
    if not provisioner or provisioner.startswith(IN_TREE):
        return False
    terms = [each.get("matchLabelExpressions") or () for each in storage_class.get("allowedTopologies") or ()]
    return not terms or any(
        term and all(labels.get(one.get("key")) in (one.get("values") or ()) for one in term) for term in terms
    )


def _selector_of(volume: JsonObject | None) -> NodeSelector | None:
    affinity = _spec(volume).get("nodeAffinity")
    return convert(affinity, VolumeNodeAffinity, "VolumeNodeAffinity").required if affinity else None


def _labels_in(selector: NodeSelector | None) -> list[tuple[str, str]]:
    """Return labels of which a node has one if a selector matches it; `_ANY` stands for no such."""
    found = list[tuple[str, str]]()
    for term in (NodeSelectorTerm(),) if selector is None else selector.node_selector_terms:
        named = next((each for each in term.match_expressions if each.operator == "In"), None)
        if named is None:
            return [_ANY]
        found += ((named.key, value) for value in named.values)
    return found


def has_delayed_claims(pod: JsonObject, find: Find) -> bool:
    """Return whether a pod has claims that get their volumes with its node."""
    return any((claim := find(key)) is not None and is_delayed(claim, find) for key in claims_of(pod))


def selectors_of_volumes(pod: JsonObject, find: Find) -> list[NodeSelector]:
    """Return the selectors of nodes that a pod's volumes have."""
    found = []
    for key in claims_of(pod):
        name = _spec(find(key)).get("volumeName")
        required = _selector_of(find(ObjectKey("PersistentVolume", "", str(name)))) if name else None
        if required is not None:
            found.append(required)
    return found


def missing_volume(pod: JsonObject, find: Find) -> str:
    """Return which claim of a pod keeps it waiting on any node: it is not there, goes, or has no volume; "" for none.

    A volume that is bound later may be out of reach of a node that was chosen before.
    """
    made = {key for key, _ in ephemeral_volumes_of(pod)}
    claims = {key: find(key) for key in claims_of(pod)}
    for key, claim in claims.items():
        if claim is None:
            waits = "waiting for ephemeral volume controller to create the " if key in made else ""
            return f'{waits}persistentvolumeclaim "{key.name}"{"" if waits else " not found"}'
    present = [(key, claim) for key, claim in claims.items() if claim is not None]
    for key, claim in present:
        if (claim.get("status") or {}).get("phase") == "Lost":
            volume = _spec(claim).get("volumeName") or ""
            return f'persistentvolumeclaim "{key.name}" bound to non-existent persistentvolume "{volume}"'
        if is_being_deleted(claim):
            return f'persistentvolumeclaim "{key.name}" is being deleted'
        if key in made and (why := why_not_for(pod, claim)):
            return why
    if any(not is_bound(claim) and not is_delayed(claim, find) for _, claim in present):
        return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def claims_for_one_pod(pod: JsonObject, find: Find) -> set[ObjectKey]:
    """Return the keys of a pod's claims that no other pod may use."""
    return {key for key in claims_of(pod) if _ONE_POD in (_spec(find(key)).get("accessModes") or ())}


def _spec(obj: JsonObject | None) -> JsonObject:
    return (obj or {}).get("spec") or {}
