"""A node that changes from one kind of runtime inside edgecore to another: both kinds' containers run, and neither kind
touches the other's.
"""

import subprocess
from collections.abc import Iterator

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import is_ready, pod
from tests.end_to_end.processes import mounts_below, processes_of, run_program, wait_until
from tests.end_to_end.runtimes import DockerUnderTest, EmbeddedUnderTest
from tests.support.leftovers import recorded_process

ISOLATED = pytest.mark.parametrize("runtime", ["oci", "docker"], indirect=True)


def _edgecore(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program("edgecore", *arguments, "--config", str(machine.edge.file))


def _running(machine: Machine, kind: str) -> list[int]:
    """The first processes of a kind's containers that run."""
    directory, runtime = machine.edge.root / "edged" / kind / "containers", machine.runtime
    if kind == "docker":
        assert isinstance(runtime, DockerUnderTest)
        listed = [runtime.state(each.name) for each in directory.glob("[!.]*")]
        return [state.pid for state in listed if state is not None and state.running]
    return [pid for each in directory.glob("*/run.json") if (pid := recorded_process(each)) is not None]


def _start_on(machine: Machine, kind: str) -> list[int]:
    """Start edgecore and wait until the pod runs on this kind; return its process."""
    machine.start_edge()
    wait_until(lambda: len(_running(machine, kind)) == 1, f"the pod runs on {kind}")
    machine.cloud.pods.wait("p", is_ready)
    return _running(machine, kind)


@pytest.fixture
def both(machine: Machine) -> Iterator[Machine]:
    """A node that has changed from isolated containers to processes, with its pod on both; edgecore does not run."""
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", is_ready)
    machine.edge.kill()
    kind = machine.runtime.name
    isolated = _running(machine, kind)
    assert len(isolated) == 1
    processes = EmbeddedUnderTest()
    machine.edge.change_runtime(processes)
    try:
        _start_on(machine, "embedded")
        assert _running(machine, kind) == isolated
        yield machine
    finally:
        machine.edge.kill()
        processes.clear(machine.edge.root / "edged")


@ISOLATED
def test_each_kind_is_reset_by_itself(both: Machine) -> None:
    """edgecore and doctor name the earlier kind; the reset of one leaves the other's container running, both ways."""
    edge, kind = both.edge, both.runtime.name
    isolated = _running(both, kind)
    left = f"embedded://{kind} is not configured and has 1 pod in {edge.root}/edged/{kind}"
    assert left in edge.process.text()
    assert left in _edgecore(both, "doctor").stdout
    edge.kill()
    done = _edgecore(both, "reset", "--runtime", "--yes")
    assert (done.returncode, left in done.stderr) == (ExitCode.OK, True), done.stderr
    assert (_running(both, "embedded"), _running(both, kind)) == ([], isolated)
    plain = _start_on(both, "embedded")
    assert _running(both, kind) == isolated
    refused = _edgecore(both, "reset", "--runtime", "--kind", kind, "--yes")
    assert refused.returncode == ExitCode.NOT_DONE
    edge.kill()
    done = _edgecore(both, "reset", "--runtime", "--kind", kind, "--yes")
    assert done.returncode == ExitCode.OK, done.stderr
    assert (_running(both, "embedded"), (edge.root / "edged" / kind).exists()) == (plain, False)
    assert [each for each in mounts_below(both.directory) if f"/{kind}/" in str(each)] == []
    assert both.runtime.left_behind() == {}
    edge.change_runtime(both.runtime)
    both.start_edge()
    wait_until(
        lambda: "embedded:// is not configured and has 1 pod" in edge.process.text(), "edgecore says what is left"
    )
    assert _running(both, "embedded") == plain


@ISOLATED
def test_uninstall_ends_the_pods_of_all_kinds(both: Machine) -> None:
    """Before it removes their files; a dry run says so."""
    edge, kind = both.edge, both.runtime.name
    edge.kill()
    left = f"embedded://{kind} is not configured and has 1 pod in {edge.root}/edged/{kind}"
    assert f"would end them too: {left}" in _edgecore(both, "uninstall", "--dry-run").stderr
    assert (len(_running(both, "embedded")), len(_running(both, kind))) == (1, 1)
    done = _edgecore(both, "uninstall", "--yes")
    assert done.returncode == ExitCode.OK, done.stderr
    assert done.stderr.count("end pod default/p") == 2
    assert mounts_below(edge.root) == []
    assert both.runtime.left_behind() == {}
    assert [path for path in edge.root.rglob("*") if not path.is_dir()] == []
    wait_until(lambda: processes_of(edge.root) == [], "no process is left")
