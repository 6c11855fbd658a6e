"""What happens when containers end: by restart policy, with back-off, and init containers before all."""

from pathlib import Path

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, mount, phase, pod, restarts_of, state_of, status_of
from tests.end_to_end.processes import wait_until

_SHARED: JsonObject = {"name": "shared", "emptyDir": {}}
_MOUNT = [mount("shared", "/shared")]


def test_crash_loop(stopped_machine: Machine) -> None:
    """The first restart is immediate, the next after a back-off up to its bound; the exit status is kept, and each
    start counts. Not each count need be told: while the cloud takes its time, the newest status replaces the others.
    """
    machine = stopped_machine
    machine.edge.longest_back_off = 2.0
    machine.start()
    crashing = container("echo start >> /shared/starts; sleep 0.2; exit 3", volumeMounts=_MOUNT)
    machine.cloud.apply(pod("p", crashing, volumes=(_SHARED,)))
    looping = machine.cloud.pods.wait("p", _is_looping)
    assert state_of(looping, "waiting")["message"].startswith("back-off 2s restarting failed container=app pod=p")
    assert status_of(looping)["lastState"]["terminated"]["exitCode"] == 3
    assert not is_ready(looping)
    again = machine.cloud.pods.wait("p", lambda obj: restarts_of(obj) >= 3)
    assert phase(again) == "Running"
    seen = machine.cloud.pods.history("p")
    counts = [restarts_of(obj) for obj in seen if status_of(obj)]
    assert counts == sorted(counts), "restarts are counted upwards"
    assert all(restarts_of(obj) >= 1 for obj in seen if _is_looping(obj)), "the first one waits for nothing"
    starts = machine.edge.volume(again, "empty-dir", "shared") / "starts"
    wait_until(lambda: _lines(starts) >= 1 + restarts_of(again), "all that is counted has begun")
    begun = _lines(starts)
    machine.cloud.pods.wait("p", lambda obj: restarts_of(obj) >= begun - 1)


def _is_looping(obj: JsonObject) -> bool:
    return bool(state_of(obj, "waiting").get("reason") == "CrashLoopBackOff")


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def test_a_container_that_cannot_be_started_is_in_a_crash_loop(machine: Machine) -> None:
    """As with a kubelet: the runtime has it as an ended container, and each attempt counts."""
    machine.cloud.apply(pod("p", container() | {"command": ["/no/such/program"]}))
    machine.cloud.pods.wait("p", _is_looping)


@pytest.mark.gives_its_machine_back
def test_a_completed_pod_stays_completed(machine: Machine, tmp_path: Path) -> None:
    """It is run once: not again when edgecore starts again, nor when the pod is looked at again."""
    once = container("echo run >> /shared/runs", volumeMounts=_MOUNT)
    of_the_machine = {"name": "shared", "hostPath": {"path": str(tmp_path)}}  # its own volumes go when it has ended
    machine.cloud.apply(pod("p", once, volumes=(of_the_machine,), restartPolicy="Never"))
    done = machine.cloud.pods.wait("p", lambda obj: phase(obj) == "Succeeded")
    assert state_of(done, "terminated") | {"exitCode": 0, "reason": "Completed"} == state_of(done, "terminated")
    machine.edge.kill()
    machine.start_edge()
    machine.cloud.apply(pod("q"))  # when this one runs, whatever a restart might do has been done
    machine.cloud.pods.wait("q", is_ready)
    assert (tmp_path / "runs").read_text() == "run\n"
    after = machine.cloud.get("Pod", "p")
    assert phase(after) == "Succeeded"
    assert restarts_of(after) == 0


@pytest.mark.gives_its_machine_back
def test_on_failure_means_until_it_succeeds(machine: Machine) -> None:
    """A job that fails once starts again, and then succeeds."""
    job = container("[ -e /shared/tried ] || { touch /shared/tried; exit 1; }", volumeMounts=_MOUNT)
    machine.cloud.apply(pod("p", job, volumes=(_SHARED,), restartPolicy="OnFailure"))
    done = machine.cloud.pods.wait("p", lambda obj: phase(obj) == "Succeeded")
    assert restarts_of(done) == 1


@pytest.mark.gives_its_machine_back
def test_init_containers_run_in_order(machine: Machine) -> None:
    """Each begins when the one before has ended well, and the pod's containers when all have."""
    write = "echo {0} begins >> /shared/log; sleep 0.2; echo {0} ends >> /shared/log"
    first, second = (container(write.format(name), name, volumeMounts=_MOUNT) for name in ("first", "second"))
    app = container("echo app begins >> /shared/log; exec sleep 600", volumeMounts=_MOUNT)
    machine.cloud.apply(pod("p", app, initContainers=[first, second], volumes=(_SHARED,)))
    made = machine.cloud.pods.wait("p", is_ready)
    log = machine.edge.volume(made, "empty-dir", "shared") / "log"
    wait_until(lambda: len(log.read_text().splitlines()) == 5, "the last line is written")
    assert log.read_text().splitlines() == ["first begins", "first ends", "second begins", "second ends", "app begins"]
    assert [each["state"]["terminated"]["exitCode"] for each in made["status"]["initContainerStatuses"]] == [0, 0]


@pytest.mark.gives_its_machine_back
def test_a_failed_init_container_of_a_pod_that_never_restarts(machine: Machine) -> None:
    """The pod has failed, and its container was never started."""
    init = container("exit 4", "init")
    machine.cloud.apply(pod("p", initContainers=[init], restartPolicy="Never"))
    failed = machine.cloud.pods.wait("p", lambda obj: phase(obj) == "Failed")
    assert failed["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert not any(state_of(obj, "running") for obj in machine.cloud.pods.history("p"))
