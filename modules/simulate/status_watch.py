"""What must hold between the statuses that a node finds and those that the cloud has: each that the cloud has is one
that the node found, and no older one comes after a newer one. What others write into a status is theirs, until the node
has put it right. A mirror may stand for two lives of its static pod, and is left out.
"""

import msgspec

from edged.api import Pod, PodStatus
from edged.pods.conditions import OURS
from modules.edgecontroller.kinds import JsonObject
from modules.simulate.world import World

MIRRORS = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod: the uid of the static pod for which it stands."""


class StatusWatch:
    """See the module's docstring. One for all nodes.

    Args:
        world: takes violations.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._found: dict[str, list[PodStatus]] = {}
        """By uid, the statuses that a node has found, in their order."""
        self._at: dict[str, int] = {}
        """Which of them the cloud has, at least."""
        self._others: set[str] = set()
        """Uids of the pods in whose statuses others have written."""

    def found(self, pods: tuple[Pod, ...]) -> None:
        """A node knows these pods, with these statuses."""
        for pod in pods:
            known = self._found.setdefault(pod.metadata.uid, [])
            status = own_part(pod.status)
            if not known or known[-1] != status:
                known.append(status)

    def others_wrote(self, pod: JsonObject) -> None:
        """Somebody else is about to change a pod's status."""
        self._others.add(runs_as(pod))

    def stored(self, old: JsonObject, new: JsonObject) -> None:
        """The cloud has another state of a pod."""
        if old.get("status") == new.get("status") or runs_as(new) != new["metadata"]["uid"]:
            return
        uid, status = runs_as(new), own_part(msgspec.convert(new.get("status") or {}, PodStatus))
        if own_part(msgspec.convert(old.get("status") or {}, PodStatus)) == status:
            return
        known, begin = self._found.get(uid, []), self._at.get(uid, 0)
        at = next((number for number in range(begin, len(known)) if known[number] == status), None)
        if at is not None:
            self._at[uid] = at
            self._others.discard(uid)
        elif uid not in self._others:
            older = status in known
            invariant = "no older state over a newer one" if older else "the cloud has what the node found"
            what = "an older status again" if older else "a status that its node never found"
            self._world.violated(invariant, f"{new['metadata']['name']} ({uid[:8]}) has {what}: {_brief(new)}")


def runs_as(pod: JsonObject) -> str:
    """The uid under which a node runs a pod of the cloud: of a mirror, that of the static pod."""
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(MIRRORS) or pod["metadata"]["uid"])


def own_part(status: PodStatus) -> PodStatus:
    """What of a status is its node's to say."""
    own = tuple(sorted((one for one in status.conditions if one.type in OURS), key=lambda one: one.type))
    return msgspec.structs.replace(status, conditions=own, qos_class="", nominated_node_name="", resize="")


def _brief(pod: JsonObject) -> str:
    return msgspec.json.encode(pod.get("status")).decode()[:400]
