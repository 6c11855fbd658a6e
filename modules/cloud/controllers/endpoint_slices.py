"""How endpoints are put into EndpointSlices: as few writes as possible, then as few slices
(kube-controller-manager 1.32, `staging/src/k8s.io/endpointslice`, `reconcileByPortMapping`).
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject, is_being_deleted
from modules.cloud.applications import BELONGING_TO
from modules.cloud.controllers.plan import WARNING, EventNote, PlannedWrite, create, delete, update
from modules.cloud.controllers.pods import owner_reference
from modules.cloud.controllers.service_pods import Ports

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
MOST: Final = 100
"""Endpoints in a slice (`--max-endpoints-per-slice`)."""

Group = tuple[str, Ports, str]
"""The common part of the endpoints of a slice: the family of addresses, the ports, and the node group if the Service
keeps to node groups."""

_Content = tuple[JsonObject | None, Group, list[JsonObject]]
"""A slice, or None until it is found or made; and what it is to hold."""


class SliceOwner(NamedTuple):
    """The common part of the slices of an object."""

    obj: JsonObject
    """The Service, or the Endpoints that are mirrored."""
    labels: dict[str, str]
    annotations: dict[str, str] | None = None
    """None: whoever has annotated a slice keeps that."""

    def labels_in(self, group: Group) -> dict[str, str]:
        """Return the labels of a slice; nodes know the slices of their node group by its label."""
        return {**self.labels, **({BELONGING_TO: group[2]} if group[2] else {})}


def slice_writes(
    owner: SliceOwner, existing: Sequence[JsonObject], wanted: dict[Group, list[JsonObject]], families: Sequence[str]
) -> tuple[PlannedWrite, ...]:
    """Return the writes after which the slices of an owner have the wanted endpoints.

    Args:
        owner: the owner.
        existing: its slices.
        wanted: the endpoints by group.
        families: the families that have a slice even without endpoints.
    """
    by_group: dict[Group, list[JsonObject]] = {}
    for each in existing:
        if not is_being_deleted(each):
            by_group.setdefault(_group_of(each), []).append(each)
    contents: list[_Content] = []
    spare: list[JsonObject] = []
    for group, endpoints in wanted.items():
        for found, held in _packed(by_group.pop(group, []), endpoints):
            if held:
                contents.append((found, group, held))
            elif found is not None:
                spare.append(found)
    spare += [each for slices in by_group.values() for each in slices]
    filled = {group[0] for _, group, _ in contents}
    contents += [(None, (family, (), ""), []) for family in families if family not in filled]
    return _writes(owner, contents, spare)


def _writes(owner: SliceOwner, contents: Sequence[_Content], spare: list[JsonObject]) -> tuple[PlannedWrite, ...]:
    """Return the writes of the contents, new ones in spare slices first; spare ones that are left are deleted."""
    creates, updates = [], []
    for found, group, held in contents:
        reused = found
        if reused is None:
            reused = next((each for each in spare if each.get("addressType") == group[0]), None)
            spare = [each for each in spare if each is not reused]
        if reused is None:
            creates.append(_created(owner, group, held))
        elif not _has(reused, owner, group, held):
            updates.append(_updated(reused, owner, group, held))
    return (*creates, *updates, *map(delete, spare))


def _packed(
    slices: Sequence[JsonObject], endpoints: Iterable[JsonObject]
) -> list[tuple[JsonObject | None, list[JsonObject]]]:
    """Return the new content of each slice of a group; slices without endpoints may go, None is a new one."""
    missing = {_identity(endpoint): endpoint for endpoint in endpoints}
    held, changed, unchanged = dict[int, list[JsonObject]](), list[int](), list[int]()
    for index, each in enumerate(slices):
        before = each.get("endpoints") or []
        identities = [_identity(endpoint) for endpoint in before]
        held[index] = [missing.pop(identity) for identity in identities if identity in missing]
        (unchanged if held[index] == before else changed).append(index)
    for index in sorted(changed, key=lambda index: -len(held[index])):
        _fill(held[index], missing)
    more: list[tuple[JsonObject | None, list[JsonObject]]] = []
    while missing:
        room = [index for index in unchanged if len(held[index]) + len(missing) <= MOST]
        if room:
            best = max(room, key=lambda index: len(held[index]))
            _fill(held[best], missing)
        else:
            made: list[JsonObject] = []
            _fill(made, missing)
            more.append((None, made))
    return [*((slices[index], held[index]) for index in held), *more]


def _fill(held: list[JsonObject], missing: dict[object, JsonObject]) -> None:
    held += [missing.pop(identity) for identity in list(missing)[: max(0, MOST - len(held))]]


def _identity(endpoint: JsonObject) -> object:
    reference = endpoint.get("targetRef") or {}
    names = endpoint.get("hostname"), endpoint.get("nodeName"), reference.get("uid")
    return tuple(endpoint.get("addresses") or ()), *names


def _group_of(each: JsonObject) -> Group:
    ports = [
        (
            str(port.get("name") or ""),
            int(port.get("port") or 0),
            str(port.get("protocol") or "TCP"),
            str(port.get("appProtocol") or ""),
        )
        for port in each.get("ports") or ()
    ]
    return str(each.get("addressType")), tuple(ports), (each["metadata"].get("labels") or {}).get(BELONGING_TO) or ""


def _has(each: JsonObject, owner: SliceOwner, group: Group, held: list[JsonObject]) -> bool:
    labels = each["metadata"].get("labels") or {}
    is_annotated = owner.annotations is None or (each["metadata"].get("annotations") or {}) == owner.annotations
    is_same = (each.get("endpoints") or []) == held and _group_of(each) == group
    return is_same and is_annotated and labels == owner.labels_in(group)


def _body(group: Group, held: list[JsonObject]) -> JsonObject:
    ports = [
        {"name": name, "port": number, "protocol": protocol, **({"appProtocol": application} if application else {})}
        for name, number, protocol, application in group[1]
    ]
    return {"addressType": group[0], "endpoints": held, "ports": ports}


def _created(owner: SliceOwner, group: Group, held: list[JsonObject]) -> PlannedWrite:
    metadata = owner.obj["metadata"]
    obj = {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            **_labelled(owner, group),
            "ownerReferences": [owner_reference(owner.obj)],
        },
        **_body(group, held),
    }
    return create(obj, refused=_refused(owner))


def _labelled(owner: SliceOwner, group: Group) -> JsonObject:
    """Return the labels and annotations of a slice."""
    annotations = {} if owner.annotations is None else {"annotations": owner.annotations}
    return {"labels": owner.labels_in(group), **annotations}


def _updated(each: JsonObject, owner: SliceOwner, group: Group, held: list[JsonObject]) -> PlannedWrite:
    changed = {**each, "metadata": {**each["metadata"], **_labelled(owner, group)}, **_body(group, held)}
    return update(changed, refused=_refused(owner))


def _refused(owner: SliceOwner) -> EventNote:
    metadata = owner.obj["metadata"]
    of = f"{metadata['namespace']}/{metadata['name']}"
    return EventNote(
        WARNING, "FailedToUpdateEndpointSlices", f"Error updating Endpoint Slices for Service {of}: {{why}}"
    )
