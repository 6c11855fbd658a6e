"""When a pod is where its example expects it, and the message when it is not."""

import pytest

from modules.processes.demo.examples import Expectation
from modules.processes.demo.goals import last_message, unmet
from tests.modules.processes.demo.pods import Json, ended, pod, running, terminated, waiting

_LOOPING = waiting("CrashLoopBackOff", "back-off 10s restarting", restarts=1)


@pytest.mark.parametrize(
    ("expectation", "arrived"),
    [
        (Expectation.RUNNING, pod("Running", running(), ready=True)),
        (Expectation.SUCCEEDED, pod("Succeeded", ended(0))),
        (Expectation.CRASH_LOOP, pod("Running", _LOOPING)),
        (Expectation.CRASH_LOOP, pod("Running", running(restarts=2, last=terminated(1)), ready=True)),
    ],
)
def test_arrived(expectation: Expectation, arrived: Json) -> None:
    """Nothing is missing; a crash loop is still one while the container happens to run after a back-off."""
    assert unmet(expectation, arrived) == ""


@pytest.mark.parametrize(
    ("expectation", "other", "reason"),
    [
        (Expectation.RUNNING, pod("Pending"), "is Pending, not Running"),
        (Expectation.RUNNING, {"metadata": {"name": "p"}, "spec": {}}, "is Pending, not Running"),
        (
            Expectation.RUNNING,
            pod("Pending", waiting("CreateContainerError", "no command")),
            "is Pending, not Running: app: CreateContainerError, no command",
        ),
        (Expectation.RUNNING, pod("Running", running(ready=False)), "is not ready (0/1 containers are)"),
        (
            Expectation.RUNNING,
            pod("Running", running(), waiting("Waits", name="b")),
            "is not ready (1/2 containers are)",
        ),
        (Expectation.SUCCEEDED, pod("Running", running(), ready=True), "is Running, not Succeeded"),
        (Expectation.SUCCEEDED, pod("Failed", ended(3)), "is Failed, not Succeeded: app: Error, exit status 3"),
        (Expectation.CRASH_LOOP, pod("Running", running(), ready=True), "has not failed twice in a row"),
        (Expectation.CRASH_LOOP, pod("Running", running(restarts=1, last=terminated(1))), "has not failed twice"),
        (Expectation.ANSWERS, {"metadata": {}, "status": {"message": "refused"}}, "does not answer: refused"),
    ],
)
def test_not_arrived(expectation: Expectation, other: Json, reason: str) -> None:
    """The reason begins with what is seen and goes on with what the node says about it."""
    assert unmet(expectation, other).startswith(reason)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (pod("Pending"), ""),
        (pod("Running", running(), ready=True), ""),
        (pod("Running", _LOOPING), "app: CrashLoopBackOff, back-off 10s restarting"),
        (pod("Pending", waiting("PodInitializing")), ""),
        (
            pod("Pending", waiting("PodInitializing"), initContainerStatuses=[waiting("ImagePull", name="init")]),
            "init: ImagePull",
        ),
        (pod("Failed", reason="Evicted", message="too\nfull"), "Evicted: too full"),
        (pod("Succeeded", ended(0)), "app: Completed, exit status 0"),
        (pod("Running", running(restarts=1, last=terminated(7)), ready=True), "app: Error, exit status 7"),
        (pod("Running", running(), initContainerStatuses=[ended(0, "init")], ready=True), ""),
    ],
)
def test_last_message(of: Json, message: str) -> None:
    """Waiting containers come before the pod's own message, and that before ended containers; a healthy pod has no
    message.
    """
    assert last_message(of) == message


def test_messages_are_one_line() -> None:
    """Whatever white space a runtime's error has, the table stays a table."""
    status = waiting("RunContainerError", "failed:\n\tno such file\r\n")
    assert last_message(pod("Pending", status)) == "app: RunContainerError, failed: no such file"
