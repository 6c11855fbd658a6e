"""`edgecore containers` and `edgecore inspect` on a node with a pod, with every container runtime."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.commands import edgecore
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import RUN, container, pod

HIDDEN_VALUE = "not-for-every-eye"


def _edgecore(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return edgecore(*arguments, "--config", str(machine.edge.file))


def _document(machine: Machine, *arguments: str) -> Any:
    done = _edgecore(machine, *arguments)
    assert done.returncode == ExitCode.OK, done.stderr
    return json.loads(done.stdout)


@pytest.mark.gives_its_machine_back
def test_containers_of_a_pod(machine: Machine) -> None:
    """The running one and the ended one: process, log, and values of variables only on request."""
    variables = [{"name": "TOKEN", "value": HIDDEN_VALUE}]
    script = f": $(TOKEN); {RUN}"
    ends = container("exit 0", name="ends")
    machine.cloud.apply(pod("p", container(script, env=variables), ends, restartPolicy="OnFailure"))
    made = machine.cloud.pods.wait("p", lambda each: _has_ended(each, "ends") and _runs(each, "app"))
    (running,) = _document(machine, "containers", "-o", "json")["containers"]
    assert (running["metadata"]["name"], running["state"]) == ("app", "CONTAINER_RUNNING")
    assert Path(f"/proc/{running['pid']}").exists()
    line = _edgecore(machine, "containers").stdout.splitlines()[1].split()
    assert line[:6] == [running["id"][:12], "default/p", "app", "Running", "0", str(running["pid"])]
    ended = set(_edgecore(machine, "containers", "-aq").stdout.split()) - {running["id"]}
    assert len(ended) == 1
    found = _document(machine, "inspect", running["id"][:12])
    assert (found["status"]["id"], found["info"]["pid"]) == (running["id"], running["pid"])
    assert found["status"]["logPath"] == str(machine.edge.log(made))
    assert HIDDEN_VALUE not in json.dumps(found)
    assert HIDDEN_VALUE in json.dumps(_document(machine, "inspect", running["id"], "--show-env"))
    (other,) = ended
    assert _document(machine, "inspect", other)["status"]["state"] == "CONTAINER_EXITED"
    by_name = _document(machine, "inspect", "default/p")
    by_id = _document(machine, "inspect", "--type", "pod", running["podSandboxId"])
    assert by_name == by_id
    assert by_name["status"]["metadata"]["name"] == "p"
    if machine.runtime.name != "embedded":  # its images are names
        image = _document(machine, "inspect", "busybox:1.36")
        assert image["info"]["imageSpec"]["os"] == "linux"
    refused = _edgecore(machine, "inspect", "nosuch")
    assert (refused.returncode, "`edgecore containers -a`" in refused.stderr) == (ExitCode.NOT_DONE, True)


def _state(made: Any, name: str) -> Any:
    statuses = (made.get("status") or {}).get("containerStatuses") or []
    return next((each["state"] for each in statuses if each["name"] == name), {})


def _has_ended(made: Any, name: str) -> bool:
    return "terminated" in _state(made, name)


def _runs(made: Any, name: str) -> bool:
    return "running" in _state(made, name)
