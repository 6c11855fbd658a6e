"""Whether a pod's sandbox still serves, or a new one is needed (kubelet's PodSandboxChanged)."""

from msgspec import Struct

from edged.api import Pod
from edged.pods.model import PodFacts, SandboxId


class SandboxVerdict(Struct, frozen=True, gc=False):
    """Whether a new sandbox is needed, the number it (or the present one) has, and the present one."""

    changed: bool
    attempt: int
    present: SandboxId | None


def judge_sandbox(pod: Pod, facts: PodFacts) -> SandboxVerdict:
    """A new sandbox is needed when there is none, when the newest is not ready or one too many is, when the
    pod moved between its own network and the host's, or when it should have an address and has none.
    """
    newest = facts.sandbox
    if newest is None:
        return SandboxVerdict(changed=True, attempt=0, present=None)
    changed = (
        not newest.ready
        or sum(sandbox.ready for sandbox in facts.sandboxes) > 1
        or newest.host_network != pod.spec.host_network
        or (not pod.spec.host_network and newest.ips == ())
    )
    return SandboxVerdict(changed, newest.attempt + 1 if changed else newest.attempt, newest.id)
