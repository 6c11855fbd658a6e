"""When a pod is tried again whose jobs fail."""

from unittest.mock import Mock

from beehive.clock import Clock
from edged.pod_workers.job import Done, Job
from edged.pod_workers.requeue import LONGEST_RETRY, RequeuePolicy
from edged.pods.model import PodRef, PodUid
from edged.pods.state import PodState

_REF = PodRef(PodUid("u"), "default", "web")


class Failing:
    """A pod whose jobs all fail."""

    def __init__(self) -> None:
        self.now = 100.0
        clock = Mock(spec=Clock)
        clock.monotonic.side_effect = lambda: self.now
        self.policy = RequeuePolicy(clock, Mock(), Mock())

    def fail(self, after: float) -> float:
        """Have a job fail some seconds after the last one; return the seconds until the retry."""
        self.now += after
        return self.policy.after_failure(None, Done(Job(PodState.TERMINATING, _REF), error=OSError()))


def test_the_delay_doubles_from_retry_to_retry() -> None:
    pod, delays = Failing(), [0.0]
    for _ in range(10):
        delays.append(pod.fail(delays[-1]))
    assert delays[1:5] == [2, 4, 8, 16]
    assert delays[-1] == LONGEST_RETRY


def test_a_job_that_is_run_for_another_reason_does_not_double_it() -> None:
    """A pod of three configmaps that arrive one after the other: each brings a job that still lacks the next one."""
    pod = Failing()
    assert [pod.fail(0), pod.fail(0.5), pod.fail(0.5)] == [2, 1.5, 1]
    assert pod.fail(1) == 4


def test_a_success_and_news_of_the_cloud_begin_anew() -> None:
    pod = Failing()
    for begin_anew in (lambda: pod.policy.reset(_REF.uid), pod.policy.reset_all):
        assert [pod.fail(0), pod.fail(2)] == [2, 4]
        begin_anew()
    assert pod.fail(0) == 2
