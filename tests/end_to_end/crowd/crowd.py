"""A node with the pods of all cases, and what is left of them."""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.mirror import Predicate
from tests.end_to_end.pods import container, phase, pod, status_of
from tests.end_to_end.processes import mounts_below, wait_until
from tests.end_to_end.runtimes import entries
from tests.support.leftovers import cgroups_named
from tests.support.patience import PATIENCE

_Case = TypeVar("_Case", bound=Callable[..., None])
_SECONDS = 2 * PATIENCE
"""For any of them: all begin at the same time."""


def wants(*manifests: JsonObject) -> Callable[[_Case], _Case]:
    """The objects that a case is about; others may not have their names."""

    def mark(case: _Case) -> _Case:
        case.__dict__["manifests"] = manifests
        return case

    return mark


def wanted(cases: Iterable[Callable[..., None]]) -> list[JsonObject]:
    """The objects of all these cases; pods come last, so that most need not wait for anything. Each is bound to the
    node, as the cloud's scheduler would not choose it for pods without room.
    """
    found = [each for case in cases for each in case.__dict__.get("manifests", ())]
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(names) == len(set(names)), "two cases want the same object"
    return sorted(map(_bound, found), key=lambda each: bool(each["kind"] == "Pod"))


def _bound(obj: JsonObject) -> JsonObject:
    return {**obj, "spec": {**obj["spec"], "nodeName": NODE}} if obj["kind"] == "Pod" else obj


def once(name: str, script: str, **fields: Any) -> JsonObject:
    """A pod whose one container says something and ends. What is in lower-case is its container's: `env`, `resources`,
    `security`, `mounts`; all else is the pod's.
    """
    own = {"securityContext": fields.pop("security", {}), "resources": fields.pop("resources", {})}
    own |= {"env": fields.pop("env", []), "envFrom": fields.pop("env_from", [])}
    own |= {"volumeMounts": fields.pop("mounts", []), **fields.pop("container", {})}
    return pod(
        name, container(script, **own), restartPolicy="Never", volumes=tuple(fields.pop("volumes", ())), **fields
    )


def lasting(name: str, *containers: JsonObject, **fields: Any) -> JsonObject:
    """A pod that runs until it is deleted."""
    return pod(name, *containers, volumes=tuple(fields.pop("volumes", ())), **fields)


class Crowd:
    """The node.

    Args:
        machine: on a runtime that is nobody else's, started.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._own_mounts = mounts_below(machine.edge.root)

    def wait(self, name: str, predicate: Predicate) -> JsonObject:
        """The pod as soon as the predicate holds."""
        return self.machine.cloud.pods.wait(name, predicate, _SECONDS)

    def said(self, name: str) -> list[str]:
        """What a pod of one container has printed, which must have succeeded."""
        ended = self.wait(name, lambda obj: phase(obj) in ("Succeeded", "Failed"))
        lines = self.machine.edge.lines(ended)
        assert phase(ended) == "Succeeded", (ended["status"], lines)
        return lines

    def says(self, name: str, *lines: str, among: str = "app") -> None:
        """Wait until a container that goes on has printed exactly these lines."""
        made = self.wait(name, lambda obj: bool(status_of(obj, among)))
        edge = self.machine.edge
        wait_until(lambda: len(edge.lines(made, among)) >= len(lines), f"{name} says {lines}", _SECONDS)
        assert edge.lines(made, among) == list(lines)

    def failed(self, name: str) -> tuple[str, str]:
        """Reason and message of a pod that has failed as a whole."""
        status = self.wait(name, lambda obj: phase(obj) == "Failed")["status"]
        return status.get("reason", ""), status.get("message", "")

    def delete_all(self) -> None:
        """Delete every pod, and wait until cloud and node have forgotten them."""
        names = [each["metadata"]["name"] for each in self.machine.cloud.pods.objects()]
        for name in names:
            self.machine.cloud.delete("Pod", name, grace=1)
        for name in names:
            self.machine.cloud.pods.wait_gone(name, _SECONDS)

    def left_behind(self) -> dict[str, list[str]]:
        """The leftovers of this node's pods on the machine, by kind, without empty kinds."""
        edge = self.machine.edge
        kinds = {
            **self.machine.runtime.left_behind(),
            "mounts": [each for each in mounts_below(edge.root) if not self._is_own(each)],
            "cgroups": _pods_below(edge.cgroup_root),
            "pods' directories": entries(edge.root / "edged" / "pods"),
            "log directories": entries(edge.pod_logs),
        }
        return {kind: left for kind, left in kinds.items() if left}

    def _is_own(self, mount: str) -> bool:
        """Return whether a runtime has this mount without pods; the OCI runtime's program comes with the first pod."""
        return mount in self._own_mounts or mount.startswith(f"{self.machine.edge.root}/edged/oci/programs/")


def _pods_below(cgroup_root: str) -> list[str]:
    """Of pods and of containers; `kubepods` and its classes stay as long as the node does."""
    return [
        f"{directory}/{name}"
        for top in cgroups_named(cgroup_root)
        for directory, names, _ in os.walk(top)
        for name in names
        if name not in ("kubepods", "burstable", "besteffort")
    ]
