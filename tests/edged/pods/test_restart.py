"""Whether a container is started again: its own rules, its own policy, the pod's policy (Kubernetes 1.34)."""

import pytest

from edged.pods.actions import compute_pod_actions
from edged.pods.backoff import BackOffs
from edged.pods.model import PodFacts
from edged.pods.pod_status.phase import Phase
from edged.pods.pod_status.status import NodeView, pod_status
from edged.pods.restart import can_restart, restarts_after
from modules.apimachinery.types import ContainerRestartRule, ContainerRestartRuleOnExitCodes, Pod, PodStatus, decode
from tests.edged.pods.builders import a_container, a_pod, a_sandbox, at, exited, facts, running

IN_42 = ContainerRestartRule("Restart", ContainerRestartRuleOnExitCodes("In", (42, 43)))
NOT_IN = ContainerRestartRule("Restart", ContainerRestartRuleOnExitCodes("NotIn", (0, 1)))
UNKNOWN_ACTION = ContainerRestartRule("Explode", ContainerRestartRuleOnExitCodes("In", (1,)))
UNKNOWN_OPERATOR = ContainerRestartRule("Restart", ContainerRestartRuleOnExitCodes("Near", (1,)))
WITHOUT_CODES = ContainerRestartRule("Restart")

Rules = tuple[ContainerRestartRule, ...]


@pytest.mark.parametrize(
    ("of_pod", "own", "rules", "again"),
    [
        ("Always", None, (), (0, 1, 42)),
        ("", None, (), (0, 1, 42)),
        ("OnFailure", None, (), (1, 42)),
        ("Never", None, (), ()),
        ("Never", "Always", (), (0, 1, 42)),
        ("Never", "OnFailure", (), (1, 42)),
        ("Always", "Never", (), ()),
        ("OnFailure", "Never", (), ()),
        ("Always", "Never", (IN_42,), (42,)),
        ("Never", "Never", (NOT_IN,), (42,)),
        ("Never", "OnFailure", (IN_42,), (1, 42)),
        ("Never", None, (IN_42,), ()),
        ("Never", "Never", (UNKNOWN_ACTION, UNKNOWN_OPERATOR, WITHOUT_CODES), ()),
        ("Never", "Never", (UNKNOWN_ACTION, NOT_IN), (42,)),
    ],
)
def test_rules_come_first_then_the_containers_policy_then_the_pods(
    of_pod: str, own: str | None, rules: Rules, again: tuple[int, ...]
) -> None:
    """Rules without a policy of the container's own do not count: the API server refuses them."""
    container = a_container("a", restart_policy=own, restart_policy_rules=rules)
    pod = a_pod(container, restart=of_pod)
    assert tuple(code for code in (0, 1, 42) if restarts_after(pod, container, code)) == again


@pytest.mark.parametrize(
    ("of_pod", "own", "rules", "can"),
    [
        ("Never", None, (), False),
        ("Never", "OnFailure", (), True),
        ("Always", "Never", (), False),
        ("Always", "Never", (IN_42,), True),
        ("Always", "Never", (UNKNOWN_ACTION,), False),
    ],
)
def test_what_failed_a_probe_is_started_again_when_any_end_allows_it(
    of_pod: str, own: str | None, rules: Rules, *, can: bool
) -> None:
    container = a_container("a", restart_policy=own, restart_policy_rules=rules)
    assert can_restart(a_pod(container, restart=of_pod), container) is can


NEVER = a_container("never", restart_policy="Never")
ALWAYS = a_container("always", restart_policy="Always")
CODE = a_container("code", restart_policy="Never", restart_policy_rules=(IN_42,))
INIT = a_container("init", restart_policy="Never", restart_policy_rules=(IN_42,))
PLAIN = a_container("plain")
DEAD = (a_sandbox(ready=False),)


def judged(pod: Pod, known: PodFacts) -> tuple[list[str], bool, str]:
    """What is started, whether the pod is ended, and its phase."""
    actions = compute_pod_actions(pod, known, at(1000), BackOffs())
    status = pod_status(pod, known, NodeView(("192.0.2.2",), "fake"), at(1000), old=PodStatus(phase="Running"))
    started = [each.container.name for each in (*actions.start_init, *actions.start)]
    return started, actions.kill_pod and not actions.create_sandbox, status.phase


@pytest.mark.parametrize(
    ("pod", "known", "expected"),
    [
        pytest.param(
            a_pod(NEVER), facts(exited(NEVER, 1)), ([], True, Phase.FAILED), id="its own Never in a pod Always"
        ),
        pytest.param(a_pod(NEVER), facts(exited(NEVER, 0)), ([], True, Phase.SUCCEEDED), id="and its good end"),
        pytest.param(
            a_pod(ALWAYS, NEVER, restart="Never"),
            facts(exited(ALWAYS, 0), exited(NEVER, 1)),
            (["always"], False, Phase.RUNNING),
            id="its own Always keeps a pod Never alive",
        ),
        pytest.param(
            a_pod(CODE, restart="Never"),
            facts(exited(CODE, 42)),
            (["code"], False, Phase.RUNNING),
            id="a code that matches",
        ),
        pytest.param(
            a_pod(CODE, restart="Never"), facts(exited(CODE, 7)), ([], True, Phase.FAILED), id="a code that does not"
        ),
        pytest.param(
            a_pod(PLAIN, init=(INIT,)),
            facts(exited(INIT, 7)),
            ([], True, Phase.FAILED),
            id="an init container's own Never",
        ),
        pytest.param(
            a_pod(PLAIN, init=(INIT,), restart="Never"),
            facts(exited(INIT, 43)),
            (["init"], False, Phase.PENDING),
            id="an init container's code that matches",
        ),
        pytest.param(
            a_pod(ALWAYS, NEVER, restart="Never"),
            facts(exited(ALWAYS, 137), exited(NEVER, 137), sandboxes=DEAD),
            (["always"], False, Phase.RUNNING),
            id="a lost sandbox is made again for whoever may run again",
        ),
        pytest.param(
            a_pod(ALWAYS, NEVER, restart="Never"),
            facts(exited(ALWAYS, 137), running(NEVER), sandboxes=DEAD),
            (["always"], False, Phase.RUNNING),
            id="what must not run twice does not, whatever is known of it",
        ),
        pytest.param(
            a_pod(CODE, NEVER),
            facts(exited(CODE, 1), exited(NEVER, 0), sandboxes=DEAD),
            ([], False, Phase.FAILED),
            id="over",
        ),
    ],
)
def test_a_pod_follows_the_policies_of_its_containers(
    pod: Pod, known: PodFacts, expected: tuple[list[str], bool, str]
) -> None:
    assert judged(pod, known) == expected


def test_a_pod_runs_while_its_sidecars_do() -> None:
    """Its final phase comes when they have been stopped (kubelet's getPhase)."""
    side = a_container("side", restart_policy="Always")
    pod = a_pod(PLAIN, init=(side,), restart="Never")
    assert judged(pod, facts(exited(PLAIN), running(side))) == ([], True, Phase.RUNNING)
    assert judged(pod, facts(exited(PLAIN), exited(side, 137), sandboxes=DEAD)) == ([], False, Phase.SUCCEEDED)


def test_the_fields_are_read_as_kubernetes_writes_them() -> None:
    rules = b'[{"action":"Restart","exitCodes":{"operator":"In","values":[42,43]}}]'
    raw = b'{"spec":{"containers":[{"name":"a","restartPolicy":"Never","restartPolicyRules":%b}]}}' % rules
    [container] = decode(Pod, raw).spec.containers
    assert container.restart_policy_rules == (IN_42,)
