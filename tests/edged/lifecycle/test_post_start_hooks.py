"""postStart hooks of several containers, of pods that go and of pods that come again."""

from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from edged.cri.contract import ContainerId as CriContainerId
from edged.cri.contract import ContainerRuntime, ExecResult
from edged.cri.errors import CriError
from edged.errors import HookError, NetworkError, PlainAnswerError
from edged.events.pods import PodEvents
from edged.lifecycle.hooks import HookRunner, HookTarget
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.lifecycle.stop_container import ContainerStop
from edged.lifecycle.termination_ordering import TerminationOrdering
from edged.lifecycle.waits import Waits
from edged.pods.model import ContainerId, PodUid
from edged.probes.network import Network
from edged.probes.targets import PodAddress
from edged.sync_events import PostStartHookEnded
from modules.apimachinery.types.probes import ExecAction, HTTPGetAction, HTTPHeader, LifecycleHandler, SleepAction
from protos.status import StatusCode
from tests.edged.pods.builders import a_container, a_pod, running
from tests.support.failing import Failing

UID = PodUid("uid")
HOOK = LifecycleHandler(exec=ExecAction(("x",)))


class Hooked:
    """The lifecycle of pods whose hooks end when they are told to."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.answers: dict[str, Callable[[], None]] = {}
        self.ended: list[PostStartHookEnded] = []
        self.limits: list[int] = []
        runtime = Mock(spec=ContainerRuntime, exec_sync=self._execute)
        self.lifecycle = PodLifecycle(simulation, runtime, Mock(spec=Network), Mock(post=self._take))
        self._codes: dict[str, int | Exception] = {}
        self.is_taken_at_once = True
        """Whether edged has time for the results."""

    def _execute(self, container: CriContainerId, _command: object, seconds: int) -> ExecResult:
        self.limits.append(seconds)
        over = self.simulation.future()
        self.answers[container] = lambda: over.set(None)
        over.get()
        code = self._codes.get(container, 0)
        if isinstance(code, Exception):
            raise code
        return ExecResult(b"", b"", code)

    def _take(self, ended: PostStartHookEnded) -> None:
        self.ended.append(ended)
        if self.is_taken_at_once:
            self.lifecycle.post_start_hooks.end(ended)

    def begin(self, container: str, code: int | Exception = 0) -> None:
        self._codes[container] = code
        target = HookTarget(UID, a_container(container), ContainerId(container), PodAddress("10.0.0.1"))
        self.lifecycle.post_start_hooks.begin(HOOK, target)
        self.simulation.run_for(0.1)

    def end(self, container: str) -> None:
        self.answers[container]()
        self.simulation.run_for(0.1)

    @property
    def results(self) -> tuple[str, str]:
        """The containers whose hooks run, and those whose hooks have failed."""
        facts = self.lifecycle.post_start_hooks.facts(UID)
        return "".join(sorted(facts.running)), "".join(sorted(facts.failed))


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    simulation = Simulation(1)
    yield Hooked(simulation)
    simulation.close()


def test_each_container_of_a_pod_has_a_result_of_its_own(hooked: Hooked) -> None:
    """A failure is kept until its container is gone: it is killed for it."""
    hooked.begin("a", code=1)
    hooked.begin("b")
    hooked.begin("c")
    assert hooked.results == ("abc", "")
    hooked.end("a")
    hooked.end("b")
    assert hooked.results == ("c", "a")
    hooked.begin("d", code=1)
    hooked.end("d")
    assert hooked.results == ("c", "ad")
    hooked.lifecycle.post_start_hooks.keep_only(UID, {ContainerId("c"), ContainerId("d")})
    assert hooked.results == ("c", "d")
    assert [(ended.container, ended.failure is None) for ended in hooked.ended] == [
        ("a", False),
        ("b", True),
        ("d", False),
    ]


def test_a_hook_runs_until_edged_takes_its_result(hooked: Hooked) -> None:
    """Whatever else edged does before, it reads the state that it was told of: its order decides, as at a replay."""
    hooked.is_taken_at_once = False
    hooked.begin("a", code=1)
    hooked.end("a")
    assert hooked.results == ("a", "")
    hooked.lifecycle.post_start_hooks.end(hooked.ended[0])
    assert hooked.results == ("", "a")


def test_a_hook_that_fails_as_nobody_foresaw_has_failed(hooked: Hooked) -> None:
    hooked.begin("a", code=ZeroDivisionError())
    hooked.end("a")
    assert hooked.results == ("", "a")


def test_a_pod_that_is_gone_leaves_nothing_behind_for_the_next_one_with_its_uid(hooked: Hooked) -> None:
    """A static pod whose file states the uid."""
    hooked.begin("a", code=1)
    hooked.end("a")
    hooked.begin("b")
    hooked.lifecycle.terminate_pod(UID, 5)
    hooked.simulation.run_for(0.1)
    assert hooked.results == ("", "a"), "the hook is waited for no longer"
    hooked.lifecycle.forget_pod(UID)
    assert hooked.results == ("", "")
    hooked.begin("c")
    assert hooked.results == ("c", "")
    hooked.end("c")
    with hooked.lifecycle.grace_periods.begin(UID, 60) as grace_period:
        assert grace_period.stop_timeout() == 60


def test_a_command_has_no_limit_and_no_text_of_the_runtime_is_told(hooked: Hooked) -> None:
    """The text may have what the command has printed."""
    hooked.begin("a", code=CriError("ExecSync", "a", StatusCode.UNKNOWN, "a secret"))
    hooked.end("a")
    assert hooked.limits == [0]
    assert [str(each.failure) for each in hooked.ended] == ["run a lifecycle hook: container a (ExecSync: UNKNOWN)"]


def test_a_hook_that_outlives_its_pod_says_nothing(hooked: Hooked) -> None:
    hooked.begin("a", code=1)
    hooked.lifecycle.forget_pod(UID)
    hooked.end("a")
    assert hooked.results == ("", "")


def test_a_hook_that_sleeps_ends_with_its_pod(hooked: Hooked) -> None:
    sleeps = LifecycleHandler(sleep=SleepAction(1000))
    target = HookTarget(UID, a_container("a"), ContainerId("a"), PodAddress("10.0.0.1"))
    hooked.lifecycle.post_start_hooks.begin(sleeps, target)
    hooked.simulation.run_for(0.1)
    assert hooked.results == ("a", "")
    hooked.lifecycle.terminate_pod(UID, 5)
    hooked.simulation.run_for(0.1)
    assert hooked.results == ("", "")


def test_a_container_that_cannot_be_stopped_keeps_no_other_from_its_end(hooked: Hooked) -> None:
    """The others would wait for it to the end of the grace period."""
    main, sidecar = (replace(running(a_container(name)), id=ContainerId(name)) for name in ("main", "sidecar"))
    order = {main.id: frozenset[ContainerId](), sidecar.id: frozenset({main.id})}
    ordering = TerminationOrdering(hooked.lifecycle.waits, order)
    stop = ContainerStop(hooked.simulation, hooked.lifecycle, a_pod(), ordering=ordering, events=Mock(spec=PodEvents))
    stopped: list[int] = []

    def fail(_seconds: int) -> None:
        raise CriError("StopContainer", "main", StatusCode.UNKNOWN, "it hangs")

    waits = hooked.simulation.call(lambda: stop(sidecar, stopped.append), name="sidecar")
    fails = hooked.simulation.call(lambda: stop(main, fail), name="main")
    hooked.simulation.run_for(1.0)
    assert len(stopped) == 1
    waits.get()
    with pytest.raises(CriError):
        fails.get()
    assert not hooked.lifecycle.grace_periods._running


def test_a_grace_period_is_shortened_although_no_thread_can_be_had_for_a_sooner_stop(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first stop goes on. It is edged's own thread that shortens it."""
    pod, stopped = a_pod(), list[int]()
    stop = ContainerStop(hooked.simulation, hooked.lifecycle, pod, events=Mock(spec=PodEvents))

    def long_stop(seconds: int) -> None:
        monkeypatch.setattr(hooked.simulation, "call", Failing(0, RuntimeError("can't start new thread")).call(print))
        hooked.lifecycle.terminate_pod(PodUid(pod.metadata.uid), 5)
        stopped.append(seconds)

    stop(running(a_container("main")), long_stop)
    assert stopped == [30]


def test_a_hook_that_no_thread_can_be_had_for_has_failed(hooked: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its container would count as not started for ever."""
    monkeypatch.setattr(hooked.simulation, "call", Failing(0, RuntimeError("can't start new thread")).call(print))
    hooked.begin("a")
    assert hooked.results == ("", "a")


@pytest.mark.parametrize(("error", "tries"), [(PlainAnswerError("get", "it"), 2), (NetworkError("get", "it"), 1)])
def test_a_hook_over_https_is_tried_again_where_nobody_speaks_tls(error: NetworkError, tries: int) -> None:
    """Without its credentials, which would cross the network in the clear."""
    network, simulation = Mock(spec=Network), Simulation(1)
    network.http_get.side_effect = [error, 200]
    headers = (HTTPHeader("Authorization", "Bearer secret"), HTTPHeader("X-Own", "1"))
    hook = LifecycleHandler(http_get=HTTPGetAction(port=8443, scheme="HTTPS", http_headers=headers))
    runner = HookRunner(Mock(spec=ContainerRuntime), network, Waits(simulation))
    subject = HookTarget(UID, a_container(), CriContainerId("c"), PodAddress("10.0.0.9"))
    if tries == 2:
        runner._run(hook, subject, 5)
    else:
        with pytest.raises(HookError):
            runner._run(hook, subject, 5)
    sent = [call.args[0] for call in network.http_get.call_args_list]
    assert [each.scheme for each in sent] == ["https", "http"][:tries]
    assert "secret" in str(sent[0].headers)
    assert ("secret" in str(sent[-1].headers), "X-Own" in str(sent[-1].headers)) == (tries == 1, True)
