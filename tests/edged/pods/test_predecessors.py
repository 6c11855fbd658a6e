"""What came before counts for nothing: facts of predecessors, drawn at random, change no decision."""

from hypothesis import given
from hypothesis import strategies as st

from edged.gc.containers import garbage
from edged.pods.facts import pod_facts
from edged.pods.init_containers import compute_init_container_actions
from edged.pods.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from edged.pods.model import ContainerFacts, ContainerId, HookFacts, PodFacts, ProbeFacts, RunState, SandboxId
from edged.settings.gc import ContainerPolicy
from modules.apimachinery.types import Container
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import REF, UID, a_container, a_pod, a_sandbox, at, running

_INITS = (a_container("one"), a_container("two"), a_container("side", restart_policy="Always"))
_MAIN = a_container("main")
_POD = a_pod(_MAIN, init=_INITS)


@st.composite
def _of_sandbox(draw: st.DrawFn, sandbox: int) -> list[ContainerFacts]:
    """Containers of one sandbox, each in any state; a newer sandbox's have higher attempts."""
    found = []
    for container in draw(st.lists(st.sampled_from((*_INITS, _MAIN)), unique_by=lambda each: each.name)):
        state, code = draw(st.sampled_from(RunState)), draw(st.sampled_from((0, 1)))
        found.append(_facts(container, sandbox, state, code, draw(st.floats(-3600, 3600))))
    return found


def _facts(container: Container, sandbox: int, state: RunState, code: int, made: float) -> ContainerFacts:
    identity = ContainerId(f"{container.name}-{sandbox}")
    return running(
        container, sandbox, id=identity, sandbox_id=SandboxId(f"s{sandbox}"), state=state, exit_code=code,
        created_at=at(made),
    )  # fmt: skip


@given(_of_sandbox(1), _of_sandbox(0))
def test_containers_of_an_older_sandbox_change_nothing_of_an_initialization(
    here: list[ContainerFacts], before: list[ContainerFacts]
) -> None:
    sandboxes = [a_sandbox(1), a_sandbox(0, ready=False)]
    alone = compute_init_container_actions(_POD, PodFacts(REF, (a_sandbox(1),), tuple(here)), ProbeFacts(), HookFacts())
    facts = pod_facts(REF, sandboxes, [*before, *here])
    assert compute_init_container_actions(_POD, facts, ProbeFacts(), HookFacts()) == alone


@given(
    st.lists(
        st.tuples(st.sampled_from((cri.CONTAINER_EXITED, cri.CONTAINER_RUNNING)), st.integers(0, 7200)), min_size=1
    ),
    st.integers(-1, 2),
    st.integers(-1, 3),
)
def test_the_newest_attempt_stays_however_the_clock_was_set(
    attempts: "list[tuple[cri.ContainerState.ValueType, int]]", per_pod: int, total: int
) -> None:
    """Creation times come from a wall clock, which may have gone back."""
    labels = {POD_UID: UID, POD_NAME: REF.name, POD_NAMESPACE: REF.namespace, CONTAINER_NAME: "main"}
    containers = [
        cri.Container(
            id=f"c{number}",
            pod_sandbox_id="s0",
            metadata=cri.ContainerMetadata(name="main", attempt=number),
            state=state,
            created_at=at(created),
            labels=labels,
        )
        for number, (state, created) in enumerate(attempts)
    ]
    policy = ContainerPolicy(per_pod=per_pod, total=total)
    removed = garbage(containers, [], {UID: False}, policy, at(10_000)).containers
    assert f"c{len(attempts) - 1}" not in {each.id for each in removed}
