"""A driver and a container that cannot be made: what was begun is ended, and no image is kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from beehive.simulation import Simulation
from modules.runtimes.engine.errors import RunFailedError
from modules.runtimes.oci import driver
from modules.runtimes.oci.crun.runtime_command import CommandFailedError
from modules.runtimes.oci.driver import OciDriver, OciSettings
from modules.runtimes.oci.model import OciContainer
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Attempt, Failing, fail_at_each_call

_PARTS = (
    "load_default_profile", "ImageStore", "ImageArchives", "RootFilesystems", "PodNamespaces", "BootDirectory",
    "Launcher", "must_hide_unified", "ReadOnlyProgram", "RuntimeCommand", "MappedRoots", "SeccompPrograms", "Places",
    "Bundles", "Conmon", "ContainerProcesses", "SandboxResources", "Executor", "ContainerStreams", "UsageMeter",
)  # fmt: skip
"""What a driver is made of, and need not be closed."""


def test_a_driver_that_cannot_be_made_closes_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """edgecore tries again: the resources of the network and of launched programs, and the streaming server."""

    def make(failing: Failing) -> Attempt:
        is_open = set[str]()

        def opened(name: str, end: str) -> SimpleNamespace:
            is_open.add(name)
            return SimpleNamespace(**{end: lambda: is_open.remove(name)})

        for name in _PARTS:
            monkeypatch.setattr(driver, name, failing.call(MagicMock()))
        monkeypatch.setattr(driver, "Machine", failing.calls_of(MagicMock(), "read"))
        monkeypatch.setattr(driver, "GroupMoves", failing.call(lambda: opened("moves", "close")))
        monkeypatch.setattr(driver, "StreamingServer", failing.call(lambda *_: opened("streaming", "stop")))
        made: list[OciDriver] = []

        def run() -> None:
            network = cast("Any", opened("network", "close"))
            settings = OciSettings(MagicMock(), network, Path("certs.d"), Path("archives"))
            made.append(OciDriver(MagicMock(), settings))
            assert is_open == {"network", "moves", "streaming"}

        return Attempt(run, left=lambda: sorted(is_open), undo=lambda: made.pop().close())

    assert fail_at_each_call(make) == len(_PARTS) + 3


def test_the_images_of_a_container_that_cannot_be_made_are_kept_no_longer(tmp_path: Path) -> None:
    """Nothing else would ever remove them: the container has no record."""
    request = cri.CreateContainerRequest(pod_sandbox_id="s1")

    def make(failing: Failing) -> Attempt:
        held: dict[str, set[str]] = {"holders": set()}

        def hold(container: OciContainer) -> None:
            held["holders"].add(container.id)
            failing.step()

        image = SimpleNamespace(id="sha256:a", repo_digests=(), config=SimpleNamespace(stop_signal=""))
        bundles = SimpleNamespace(
            check=lambda _: (image, ()),
            hold=hold,
            check_images=failing.call(lambda _: None),
            forget=lambda container: held["holders"].discard(container.id),
        )
        maker = SimpleNamespace(
            _bundles=bundles,
            _clock=Simulation(0).clock,
            _state=SimpleNamespace(containers=tmp_path),
            _new_id=lambda: "c1",
        )
        return Attempt(lambda: OciDriver.create(cast("Any", maker), request, cast("Any", None)), (held,))

    assert fail_at_each_call(make) == 2


@pytest.mark.parametrize(
    ("state", "calls"),
    [
        (cri.CONTAINER_CREATED, ["check_limits"]),
        (cri.CONTAINER_RUNNING, ["with_limits", "update", "keep_limits"]),
        (cri.CONTAINER_EXITED, ["check_limits"]),
    ],
)
def test_only_the_limits_of_a_container_that_runs_are_changed(state: int, calls: list[str]) -> None:
    """Another has no group, and what has never run no file with limits."""
    others = MagicMock()
    maker = SimpleNamespace(_bundles=others, _runtime=others)
    OciDriver.update(cast("Any", maker), cast("Any", SimpleNamespace(state=state, id="c1")), MagicMock(), "update")
    assert [name for name, *_ in others.method_calls] == calls


def test_limits_that_the_runtime_refuses_are_not_kept() -> None:
    """A later look, or the next edgecore, would take them for the container's."""
    made = cast("Any", object.__new__(OciDriver))
    made._bundles, made._runtime = MagicMock(), MagicMock()
    made._runtime.update.side_effect = CommandFailedError("busy")
    container = MagicMock(state=cri.CONTAINER_RUNNING)
    with pytest.raises(RunFailedError):
        made.update(container, cri.LinuxContainerResources(), "update")
    assert not made._bundles.keep_limits.called


def test_the_directory_of_all_mounts_is_removed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not empty before."""
    made, parts = cast("Any", object.__new__(OciDriver)), MagicMock()
    made._namespaces, made._program, made._boot = parts.namespaces, parts.program, parts.boot
    monkeypatch.setattr(driver, "remove_top", parts.remove_top)
    made.purge()
    assert [name for name, *_ in parts.mock_calls][-1] == "remove_top"
    assert len(parts.mock_calls) == 4
