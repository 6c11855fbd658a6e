"""Decision about a pod's sandbox: reuse it or create another one (kubelet's PodSandboxChanged)."""

from msgspec import Struct

from edged.pods.model import PodFacts, SandboxId
from modules.apimachinery.types import Pod


class SandboxCheck(Struct, frozen=True, gc=False):
    """Need for a new sandbox, its number (or the present one's), and the present sandbox."""

    changed: bool
    attempt: int
    present: SandboxId | None


def pod_sandbox_changed(pod: Pod, facts: PodFacts) -> SandboxCheck:
    """Decide whether the pod needs a new sandbox.

    It needs one if it has none, if the newest one is not ready or an older one is ready too, if the pod moved between
    its own network and the host's, or if the sandbox lacks an address.
    """
    newest = facts.sandbox
    if newest is None:
        return SandboxCheck(changed=True, attempt=0, present=None)
    changed = (
        not newest.ready
        or sum(sandbox.ready for sandbox in facts.sandboxes) > 1
        or newest.host_network != pod.spec.host_network
        or (not pod.spec.host_network and newest.ips == ())
    )
    return SandboxCheck(changed, newest.attempt + 1 if changed else newest.attempt, newest.id)
