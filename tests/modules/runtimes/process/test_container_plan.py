"""Requests that are refused before anything is done, and the specification of a container's process."""

import os
import signal
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from modules.runtimes.engine.errors import BadRequestError, NotProvidedError, WrongStateError
from modules.runtimes.engine.records import ContainerId, ContainerRecord
from modules.runtimes.process.container_plan import (
    check_request,
    missing_mount_point,
    needs_mounts,
    plan_container,
    require_mounts,
)
from modules.runtimes.process.model import ProcessContainer, stop_signal
from modules.runtimes.process.shim_spawner import MountAbility
from modules.runtimes.process.users import resolve_user
from modules.runtimes.shim.protocol import ContainerSpec, Namespacing
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process.test_mount_plan import FakeHost


def _request(**fields: object) -> cri.CreateContainerRequest:
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="web"), command=["true"])
    config.MergeFrom(cri.ContainerConfig(**fields))  # type: ignore[arg-type]
    return cri.CreateContainerRequest(config=config)


@pytest.mark.parametrize("args", [[], ["-v"]])
def test_a_command_is_needed(args: list[str]) -> None:
    """Without a command there is nothing to run, and the message says what to write."""
    request = cri.CreateContainerRequest(config=cri.ContainerConfig(args=args))
    with pytest.raises(BadRequestError, match=r"only a name here.*give `command:`"):
        check_request(request)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (_request(command=["a\0b"]), "NUL"),
        (_request(envs=[cri.KeyValue(key="A", value=b"x\0")]), "NUL"),
        (_request(envs=[cri.KeyValue(key="A=B", value=b"x")]), "name is empty or holds '='"),
        (_request(working_dir="here"), '"here" is not absolute'),
        (_request(log_path="../../etc/passwd"), "leaves the log directory"),
        (_request(log_path="/etc/passwd"), "leaves the log directory"),
        (_request(mounts=[cri.Mount(container_path="data", host_path="/v")]), "absolute paths"),
        (_request(mounts=[cri.Mount(container_path="/data", host_path="/v/../w")]), "absolute paths"),
    ],
)
def test_invalid_requests(request_: cri.CreateContainerRequest, reason: str) -> None:
    """Requests that could never run, or reach outside, are refused with the reason."""
    with pytest.raises(BadRequestError, match=reason):
        check_request(request_)


@pytest.mark.parametrize(
    ("mount", "reason"),
    [
        (cri.Mount(propagation=cri.PROPAGATION_BIDIRECTIONAL), "bidirectional"),
        (cri.Mount(recursive_read_only=True), "recursive read-only"),
        (cri.Mount(image=cri.ImageSpec(image="busybox")), "image volumes"),
    ],
)
def test_mounts_that_are_not_provided(mount: cri.Mount, reason: str) -> None:
    """Features that private mounts of plain processes lack are refused, not ignored."""
    mount.MergeFrom(cri.Mount(container_path="/data", host_path="/v"))
    with pytest.raises(NotProvidedError, match=reason):
        check_request(_request(mounts=[mount]))


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        (cri.SIGNAL_RUNTIME_DEFAULT, signal.SIGTERM),
        (cri.SIGNAL_SIGINT, signal.SIGINT),
        (cri.SIGNAL_SIGCLD, signal.SIGCHLD),
        (cri.SIGNAL_SIGRTMIN, signal.SIGRTMIN),
        (cri.SIGNAL_SIGRTMINPLUS3, signal.SIGRTMIN + 3),
        (cri.SIGNAL_SIGRTMAXMINUS2, signal.SIGRTMAX - 2),
    ],
)
def test_stop_signal(asked: cri.Signal.ValueType, number: int) -> None:
    """CRI's names of signals are the machine's numbers; without one it is SIGTERM."""
    assert stop_signal(cri.ContainerConfig(stop_signal=asked)) == number


def test_every_signal_of_cri_has_a_number() -> None:
    """No name in CRI's enumeration is unknown here."""
    numbers = {stop_signal(cri.ContainerConfig(stop_signal=value)) for value in cri.Signal.values()}
    assert numbers <= set(signal.valid_signals())


def test_mounts_on_a_machine_without() -> None:
    """Where private mounts are forbidden, the refusal gives the machine's reason and a remedy."""
    with pytest.raises(WrongStateError, match=r"Operation not permitted.*user namespaces"):
        require_mounts(cri.ContainerConfig(), MountAbility("", "a user namespace: Operation not permitted"))


@pytest.mark.parametrize(
    ("namespacing", "has_point", "has_volume", "is_mounted"),
    [
        ("mount", True, False, True),
        ("mount", False, False, False),
        ("mount", False, True, False),
        ("user", True, False, False),
        ("user", True, True, True),
        ("", True, False, False),
    ],
)
def test_a_token_is_mounted_where_there_is_a_place_for_it(
    namespacing: Namespacing, has_point: bool, has_volume: bool, is_mounted: bool
) -> None:
    """Every container has one: it must neither be refused for that, nor lose sight of the machine's /run."""
    token, place = "/pods/1/volumes/kube-api-access-x7k2p", "/var/run/secrets/kubernetes.io/serviceaccount"
    mounts = [cri.Mount(container_path=place, host_path=token, readonly=True)]
    mounts += [cri.Mount(container_path="/data", host_path="/data")] if has_volume else []
    config = cri.ContainerConfig(command=["true"], mounts=mounts)
    there = [place, *map(str, PurePosixPath(place).parents)] if has_point else ["/var", "/var/run"]
    host = FakeHost(dict.fromkeys(("/data", token, *there)))
    assert needs_mounts(config, host) is has_volume
    request = cri.CreateContainerRequest(config=config)
    container = ProcessContainer(ContainerId("c"), Path("/nowhere"), request, ContainerRecord(created_at=0))
    steps = str(plan_container(container, MountAbility(namespacing, ""), host)["steps"])
    assert (token in steps, "/run" in steps.replace(place, "")) == (is_mounted, False)


@pytest.mark.parametrize("place", ["/etc/hosts", "/var/run/secrets/kubernetes.io/serviceaccount"])
def test_a_volume_in_the_place_of_an_optional_file_is_none(place: str) -> None:
    """A pod that mounts something of its own there does not run without it."""
    mount = cri.Mount(container_path=place, host_path="/pods/1/volumes/mine")
    host = FakeHost(dict.fromkeys((place, "/pods/1/volumes/mine")))
    assert needs_mounts(cri.ContainerConfig(mounts=[mount]), host)


@pytest.mark.parametrize(
    ("message", "is_mounted", "is_made"),
    [
        ("/dev/termination-log", True, True),
        ("/dev/termination-log", False, False),
        ("/dev/there", True, False),
        ("/dev/sub/log", True, False),
        ("/app/log", True, False),
    ],
)
def test_only_a_missing_file_in_dev_is_made_as_a_mount_point(message: str, is_mounted: bool, is_made: bool) -> None:
    """Nothing may appear in other directories of the machine."""
    annotations = {"io.kubernetes.container.terminationMessagePath": message}
    mounts = [cri.Mount(container_path=message, host_path="/pods/1/log")] if is_mounted else []
    config = cri.ContainerConfig(annotations=annotations, mounts=mounts)
    made = missing_mount_point(config, FakeHost({"/dev": None, "/dev/there": b"", "/dev/sub": None, "/app": None}))
    assert made == (PurePosixPath(message) if is_made else None)


def _planned(config: cri.ContainerConfig) -> ContainerSpec:
    request = cri.CreateContainerRequest(config=config)
    container = ProcessContainer(ContainerId("c"), Path("/nowhere"), request, ContainerRecord(created_at=0))
    return plan_container(container, MountAbility("", ""), FakeHost({}))


def test_a_variable_of_the_container_is_before_ours() -> None:
    config = cri.ContainerConfig(command=["true"], envs=[cri.KeyValue(key="HOME", value=b"/mine")])
    env = _planned(config)["process"]["env"]
    assert (env["HOME"], "PATH" in env) == ("/mine", True)


def test_the_oom_score_is_changed_only_when_it_is_given() -> None:
    """0 is a score, too: edgecore's own may be less."""
    config = cri.ContainerConfig(command=["true"])
    assert _planned(config)["oom_score_adj"] is None
    config.linux.resources.oom_score_adj = 0
    config.linux.resources.SetInParent()
    assert _planned(config)["oom_score_adj"] == 0


def _context(**fields: object) -> cri.LinuxContainerSecurityContext:
    return cri.LinuxContainerSecurityContext(**fields)  # type: ignore[arg-type]


_NOBODY = cri.Int64Value(value=65534)


def test_users_as_root() -> None:
    """Root changes to any user; group and supplementary groups are completed."""
    asked = _context(run_as_user=cri.Int64Value(value=4711), supplemental_groups=[7])
    assert resolve_user(asked, 0, "mount") == {"uid": 4711, "gid": 0, "groups": [0, 7]}
    asked.run_as_group.value = 42
    assert resolve_user(asked, 0, "") == {"uid": 4711, "gid": 42, "groups": [7, 42]}
    assert resolve_user(_context(run_as_username="root"), 0, "") is not None
    assert resolve_user(_context(), 0, "") is None


def test_groups_of_the_machine_are_left_out_when_the_pod_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getgrouplist", lambda *_: [0, 5])
    groups = []
    for policy in (cri.Merge, cri.Strict):
        user = resolve_user(_context(supplemental_groups=[7], supplemental_groups_policy=policy), 0, "")
        groups.append(user["groups"] if user is not None else None)
    assert groups == [[0, 5, 7], [0, 7]]


def test_users_as_somebody_else() -> None:
    """Nobody but root changes users; asking for oneself is fine."""
    assert resolve_user(_context(run_as_user=_NOBODY), 65534, "user") is None
    assert resolve_user(_context(), 1000, "user") is None


@pytest.mark.parametrize(
    ("resolve", "error"),
    [
        (lambda: resolve_user(_context(run_as_user=_NOBODY), 1000, ""), WrongStateError),
        (lambda: resolve_user(_context(run_as_user=_NOBODY), 0, "user"), WrongStateError),
        (lambda: resolve_user(_context(run_as_group=_NOBODY), 0, ""), BadRequestError),
        (lambda: resolve_user(_context(run_as_username="no such user"), 0, ""), BadRequestError),
    ],
)
def test_users_that_are_refused(resolve: Callable[[], object], error: type[Exception]) -> None:
    """A user that cannot be had is refused, never replaced by another."""
    with pytest.raises(error):
        resolve()
