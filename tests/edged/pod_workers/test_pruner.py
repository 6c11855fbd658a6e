"""What goes of a pod's past."""

from unittest.mock import Mock, call

import pytest

from edged.cri.contract import ContainerId
from edged.cri.errors import CriError
from edged.pod_workers.pruner import PodPruner, prunable
from edged.pods.facts import pod_facts
from edged.pods.model import ContainerFacts, PodFacts, PodRef, PodUid, RunState, SandboxFacts, SandboxId
from modules.apimachinery.types import Nanoseconds
from protos.status import StatusCode

REF = PodRef(PodUid("u"), "d", "web")


def _container(number: int, sandbox: str, state: RunState = RunState.EXITED) -> ContainerFacts:
    return ContainerFacts(ContainerId(f"c{number}"), SandboxId(sandbox), "main", number, state, Nanoseconds(number))


def _facts() -> PodFacts:
    """A container runs, three before it have ended, one in each of the sandboxes before."""
    sandboxes = [
        SandboxFacts(SandboxId(f"s{number}"), number, ready=number == 3, created_at=Nanoseconds(number))
        for number in range(4)
    ]
    ended = [_container(number, f"s{number}") for number in range(3)]
    return pod_facts(REF, sandboxes, [_container(3, "s3", RunState.RUNNING), *ended])


@pytest.mark.parametrize(("keep", "containers", "sandboxes"), [(0, "210", "210"), (1, "10", "10"), (2, "0", "0")])
def test_the_newest_of_the_dead_stay_with_their_sandboxes(keep: int, containers: str, sandboxes: str) -> None:
    found = prunable(_facts(), keep)
    assert [each.id for each in found.containers] == [f"c{number}" for number in containers]
    assert [each.id for each in found.sandboxes] == [f"s{number}" for number in sandboxes]


def test_what_could_not_be_removed_is_still_there() -> None:
    """For the next sync, which tries again."""
    runtime, directories = Mock(), Mock()
    directories.remove_container.side_effect = [None, OSError("busy")]
    pruner = PodPruner(runtime, directories)
    assert pruner.prune(_facts()) == _facts()
    runtime.remove_pod_sandbox.assert_not_called()
    directories.remove_container.side_effect = None
    runtime.reset_mock()
    left = pruner.prune(_facts())
    assert ([each.id for each in left.containers], [each.id for each in left.sandboxes]) == (["c3", "c2"], ["s3", "s2"])
    directories.remove_container.assert_called_with(REF, "main", 0)
    assert runtime.mock_calls == [
        call.remove_container("c1"), call.remove_container("c0"),
        call.remove_pod_sandbox("s1"), call.remove_pod_sandbox("s0"),
    ]  # fmt: skip


def test_a_container_that_cannot_be_removed_keeps_its_log() -> None:
    runtime, directories = Mock(), Mock()
    runtime.remove_container.side_effect = CriError("RemoveContainer", "c1", StatusCode.INTERNAL, "busy")
    assert PodPruner(runtime, directories).prune(_facts()) == _facts()
    directories.remove_container.assert_not_called()
