"""Restart decisions for containers that do not run, and the number of the next attempt.

The rules are kubelet's (ShouldContainerBeRestarted, ContainerShouldRestart): a container's rules for exit
codes come first, then its own restart policy, then the pod's; a container that never really started is started in any
case.
"""

from edged.pods.hash import differs
from edged.pods.model import ContainerFacts, PodFacts, RunState, SandboxId
from modules.apimachinery.types import Container, ContainerRestartRule, Pod

ALWAYS = "Always"
ON_FAILURE = "OnFailure"
NEVER = "Never"

_POLICIES = (ALWAYS, ON_FAILURE, NEVER)
_RESTART = "Restart"
_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


def is_terminal(pod: Pod) -> bool:
    """Return whether the pod is in a final phase."""
    return pod.status.phase in _TERMINAL_PHASES


def restarts_after(pod: Pod, container: Container, exit_code: int) -> bool:
    """Return whether a container that ended with this exit code is started again."""
    if container.restart_policy is not None and any(_matches(r, exit_code) for r in container.restart_policy_rules):
        return True
    policy = _policy(pod, container)
    return policy == ALWAYS or (policy == ON_FAILURE and exit_code != 0)


def can_restart(pod: Pod, container: Container) -> bool:
    """Return whether the container is started again after some exit code (kubelet's IsContainerRestartable)."""
    if container.restart_policy is not None and any(r.action == _RESTART for r in container.restart_policy_rules):
        return True
    return _policy(pod, container) != NEVER


def should_be_started(pod: Pod, container: Container, last: ContainerFacts | None) -> bool:
    """Return whether to start a regular container, given the newest container of its name."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if last is None or last.state in (RunState.CREATED, RunState.UNKNOWN):
        return True
    return not last.running and (last.replaced or restarts_after(pod, container, last.exit_code))


def _policy(pod: Pod, container: Container) -> str:
    """Return the effective restart policy; an unknown or empty one means Always, the API's default."""
    policies = (container.restart_policy, pod.spec.restart_policy)
    return next((policy for policy in policies if policy in _POLICIES), ALWAYS)


def _matches(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if rule.action != _RESTART or codes is None:
        return False
    named = exit_code in codes.values
    return named if codes.operator == "In" else codes.operator == "NotIn" and not named


def next_attempt(facts: PodFacts, container: Container, sandbox: SandboxId | None) -> int:
    """Return the number of the next container of that name: 0 for the first, then one more than the newest.

    A container that an agent created in this sandbox from the present definition and never started, because the agent
    was killed between the two steps, is used under its own number. That does not count as a restart, and it cannot run
    beside another one when the runtime is starting it at this moment. (A kubelet creates another one.)
    """
    last = facts.newest(container.name)
    if last is None:
        return 0
    same = last.sandbox_id == sandbox and not differs(last.hash, container, last.image)
    unstarted = last.state is RunState.CREATED and same
    return last.attempt if unstarted else last.attempt + 1
