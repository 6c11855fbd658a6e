"""The pod and the container that the words of a command name. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from modules.kubectl.absent_kinds import advice_on
from modules.processes.common.pod_commands.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.apimachinery.types import Pod

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Annotation with the name of the container that commands without `-c` mean."""

_PODS: Final = ("pod", "pods", "po")
_OWNERS: Final = (
    "deployment", "deployments", "deploy", "replicaset", "replicasets", "rs", "statefulset", "statefulsets", "sts",
    "daemonset", "daemonsets", "ds", "job", "jobs", "cronjob", "cronjobs", "cj", "service", "services", "svc",
    "replicationcontroller", "replicationcontrollers", "rc",
)  # fmt: skip


class PodTarget(NamedTuple):
    """The name of a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def pod_target(word: str, namespace: str) -> PodTarget:
    """Return the pod that a word names: `web`, `pod/web`, or `shop/web` in a namespace.

    Args:
        word: the word.
        namespace: the option `-n`; empty without it.

    Raises:
        NodeError: the word names no pod, or another namespace than the option.
    """
    before, slash, name = word.rpartition("/")
    if not name or "/" in before or (slash and not before):
        raise NodeError("this is no pod", word, "POD, pod/POD or NAMESPACE/POD is wanted", usage=True)
    if not slash or before.lower() in _PODS:
        return PodTarget(namespace or "default", name)
    if before.lower().partition(".")[0] in _OWNERS:
        hint = "what made a pod is not looked up here; `get pods -l LABELS` finds them"
        raise NodeError("name the pod itself", word, hint, usage=True)
    if advice := advice_on(before):
        raise NodeError("this is no pod", word, advice, usage=True)
    if namespace not in ("", before):
        raise NodeError("two namespaces are named", word, f"-n {namespace} is the other one", usage=True)
    return PodTarget(before, name)


def only_word(words: Sequence[str], what: str) -> str:
    """Return the one word of a command. Raises NodeError for another number of words."""
    if len(words) != 1:
        raise NodeError(f"{what} is wanted" if not words else f"one {what} is wanted, and no more words", usage=True)
    return words[0]


class Chosen(NamedTuple):
    """A container, and how it was found."""

    name: str
    remark: str = ""
    """For the user, when the container was chosen for them."""


def container_of(pod: Pod, wanted: str) -> Chosen:
    """Return the container that a command means: `wanted`, else the pod's annotation, else the first.

    Raises:
        NodeError: the pod has no such container.
    """
    names = [each.name for each in pod.spec.all_containers]
    about = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if wanted:
        if wanted not in names:
            raise NodeError(f"no container {wanted} in pod", about, f"it has {', '.join(names)}")
        return Chosen(wanted)
    marked = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if marked in names:
        return Chosen(marked)
    if not pod.spec.containers:
        raise NodeError("no container in pod", about)
    first = pod.spec.containers[0].name
    if len(names) == 1:
        return Chosen(first)
    return Chosen(first, f'Defaulted container "{first}" out of: {", ".join(_described(pod))}')


def _described(pod: Pod) -> list[str]:
    spec = pod.spec
    return [
        *(each.name for each in spec.containers),
        *(f"{each.name} (ephem)" for each in spec.ephemeral_containers),
        *(f"{each.name} (init)" for each in spec.init_containers),
    ]
