"""Compares versions, statuses and other writers' changes in cloud, store and edged at the end of a run."""

from collections.abc import Iterator

from beehive.decoding import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of, version_of
from modules.apimachinery.pod_references import references_of
from modules.apimachinery.types import Node as NodeObject
from modules.apimachinery.types import PodStatus
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.status_watch import fields_unlike, own_part, runs_as
from modules.lab.simulate.wire_watch import rows_in

_CONFIGS = {"configmap": "ConfigMap", "secret": "Secret"}


def differences(node: SimulatedNode, cloud: SimulatedCloud, pods: dict[str, JsonObject]) -> Iterator[str]:
    """Yield each difference as a line; `pods` are the node's pods in the cloud, by uid."""
    yield from _of_rows(node, cloud, pods)
    yield from _of_mirrors(node, cloud, pods)
    yield from _of_edged(node, pods)
    yield from _of_node_object(node, cloud)


def _of_rows(node: SimulatedNode, cloud: SimulatedCloud, pods: dict[str, JsonObject]) -> Iterator[str]:
    rows = rows_in(node.state)
    for pod in pods.values():
        yield from _of_row(rows, f"default/pod/{pod['metadata']['name']}", pod)
    referred = {key for pod in pods.values() for key in references_of(pod)}
    for key, (uid, _) in rows.items():
        namespace, _, rest = key.partition("/")
        kind, _, name = rest.partition("/")
        if kind in _CONFIGS:
            live = cloud.find(_CONFIGS[kind], namespace, name)
            if live is None:
                yield f"row {key} ({uid[:8]}) is left over: the cloud has none"
            elif (
                ObjectKey(_CONFIGS[kind], namespace, name) in referred
            ):  # of other objects a node only gets the deletion
                yield from _of_row(rows, key, live)


def _of_row(rows: dict[str, tuple[str, int]], key: str, live: JsonObject) -> Iterator[str]:
    has, wanted = rows.get(key), (uid_of(live), int(version_of(live)))
    if has is not None and has != wanted:
        yield f"row {key} is {has}, the cloud has {wanted}"


def _of_mirrors(node: SimulatedNode, cloud: SimulatedCloud, pods: dict[str, JsonObject]) -> Iterator[str]:
    """Check that each static pod has one mirror and no mirror is left over. A cloud that has lost its database does not
    report that it has lost a mirror.
    """
    mirrors = {pod["metadata"]["name"]: runs_as(pod) for uid, pod in pods.items() if runs_as(pod) != uid}
    missing = node.manifests.wanted.keys() - mirrors.keys()
    if mirrors != node.manifests.wanted and not (missing and cloud.forgotten):
        yield f"the mirrors in the cloud are {mirrors}, the files are {node.manifests.wanted}"


def _of_edged(node: SimulatedNode, pods: dict[str, JsonObject]) -> Iterator[str]:
    """Check that edged has each pod as the cloud has it, and the cloud each status as edged has it."""
    known = {pod.metadata.uid: pod for pod in node.snapshots.pods}
    for uid in sorted(node.manifests.wanted.values()):
        if uid not in known:
            yield f"edged does not have static pod {uid}"
    for pod in pods.values():
        mine, name = known.get(runs_as(pod)), pod["metadata"]["name"]
        if mine is None:
            yield f"edged does not have {name}"
            continue
        if runs_as(pod) == uid_of(pod) and mine.metadata.labels != (pod["metadata"].get("labels") or {}):
            yield f"edged has {name} with labels {mine.metadata.labels}, not {pod['metadata'].get('labels')}"
        found, reported = own_part(mine.status), own_part(convert(pod.get("status") or {}, PodStatus))
        if found != reported:
            last = node.statuses.last_writer(uid_of(pod))
            unlike = fields_unlike(reported, found)
            yield f"the cloud has another status of {name} than was found: {unlike}; last written by {last}"


def _of_node_object(node: SimulatedNode, cloud: SimulatedCloud) -> Iterator[str]:
    """Check that the cloud has the node's conditions, and edged the labels of the cloud's Node object."""
    there, known = cloud.find("Node", "", node.name), node.known_node()
    found = node.snapshots.node_status
    if there is None or known is None or found is None:
        yield "edged does not know of the node"
        return
    reported = convert(there, NodeObject)
    if known.metadata.uid != reported.metadata.uid or known.metadata.labels != reported.metadata.labels:
        has, wanted = ((one.metadata.uid[:8], one.metadata.labels) for one in (known, reported))
        yield f"edged has the node as {has}, the cloud as {wanted}"
    conditions = {one.type: (one.status, one.reason, one.message) for one in reported.status.conditions}
    for one in found.conditions:
        there_is, found_is = conditions.get(one.type), (one.status, one.reason, one.message)
        if there_is != found_is:
            yield f"the node's condition {one.type} is {there_is}, found was {found_is}"
