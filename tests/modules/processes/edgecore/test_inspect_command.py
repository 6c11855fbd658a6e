"""`edgecore containers` and `edgecore inspect`: what is printed, which object is meant, and what is hidden."""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from edged.errors import EdgedError
from edged.pods.labels import POD_NAME, POD_NAMESPACE
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.runtime_commands import inspect
from modules.processes.edgecore.runtime_commands.documents import HIDDEN, information_of, without_values
from modules.processes.edgecore.runtime_commands.inspect import (
    _IMAGE,
    ListedContainer,
    RuntimeObject,
    _images_named,
    row,
)
from protos.cri.v1 import api_pb2 as cri

SECOND = 1_000_000_000
WEB, OLD, DB = "abc1" + "0" * 60, "abc2" + "0" * 60, "d0" + "0" * 62
POD, POD_BEFORE, OTHER = "5a" + "0" * 62, "5b" + "0" * 62, "5c" + "0" * 62
IMAGE = "sha256:" + "9e" * 32
INFORMATION = {
    "pid": 4711,
    "config": {"envs": [{"key": "TOKEN", "value": "s3cret-value"}], "args": ["--token=s3cret-value"]},
    "runtimeSpec": {"process": {"env": ["TOKEN=s3cret-value", "EMPTY"], "args": ["app", "s3cret-value"]}},
}


def _container(key: str, pod: str, name: str, state: Any, created: int, **labels: str) -> cri.Container:
    return cri.Container(
        id=key,
        pod_sandbox_id=pod,
        metadata=cri.ContainerMetadata(name=name, attempt=2),
        image=cri.ImageSpec(image=IMAGE, user_specified_image="nginx:1.25"),
        image_id=IMAGE,
        state=state,
        created_at=created * SECOND,
        labels=labels,
    )


def _sandbox(key: str, namespace: str, name: str, created: int, attempt: int = 0) -> cri.PodSandbox:
    metadata = cri.PodSandboxMetadata(name=name, namespace=namespace, attempt=attempt)
    return cri.PodSandbox(id=key, metadata=metadata, created_at=created * SECOND)


class Runtime:
    """A runtime with two pods, one of them with a sandbox of before, and an image."""

    def __init__(self) -> None:
        labels = {POD_NAME: "web", POD_NAMESPACE: "default"}
        self.containers = [
            _container(WEB, POD, "app", cri.CONTAINER_RUNNING, 100, **labels),
            _container(OLD, POD_BEFORE, "app", cri.CONTAINER_EXITED, 50, **labels),
            _container(DB, OTHER, "db", cri.CONTAINER_RUNNING, 200),
        ]
        self.sandboxes = [
            _sandbox(POD, "default", "web", 99),
            _sandbox(POD_BEFORE, "default", "web", 49),
            _sandbox(OTHER, "kube-system", "db", 199),
        ]
        self.image = cri.Image(id=IMAGE, repo_tags=["docker.io/library/nginx:1.25"])

    def list_containers(self, wanted: cri.ContainerFilter | None = None) -> Sequence[cri.Container]:
        """Return the containers in a state, or all."""
        return [each for each in self.containers if wanted is None or each.state == wanted.state.state]

    def list_pod_sandboxes(self) -> Sequence[cri.PodSandbox]:
        """Return all."""
        return self.sandboxes

    def list_images(self) -> Sequence[cri.Image]:
        """Return the one."""
        return [self.image]

    def list_container_stats(self) -> Sequence[cri.ContainerStats]:
        """Measure a running one."""
        memory = cri.MemoryUsage(working_set_bytes=cri.UInt64Value(value=3 << 19))
        return [cri.ContainerStats(attributes=cri.ContainerAttributes(id=WEB), memory=memory)]

    def container_status(self, key: str, *, verbose: bool) -> cri.ContainerStatusResponse:
        """Return the status; a just removed one is refused."""
        assert verbose
        if key == DB:
            raise EdgedError("look at a container", key)
        status = cri.ContainerStatus(id=key, log_path="/var/log/pods/web/app/2.log")
        return cri.ContainerStatusResponse(status=status, info={"info": json.dumps(INFORMATION)})

    def pod_sandbox_status(self, key: str, *, verbose: bool) -> cri.PodSandboxStatusResponse:
        """Return the status; this runtime has no information."""
        assert verbose
        return cri.PodSandboxStatusResponse(status=cri.PodSandboxStatus(id=key))

    def image_status(self, spec: cri.ImageSpec) -> cri.Image | None:
        """Return the image; a runtime of processes has every name, and Docker refuses some."""
        if spec.image == "no name":
            raise EdgedError("look at an image", spec.image)
        return self.image if spec.image in ("nginx:1.25", IMAGE) else cri.Image(id="sha256:77")

    def image_status_response(self, spec: cri.ImageSpec, *, verbose: bool) -> cri.ImageStatusResponse:
        """Return the image."""
        assert (verbose, spec.image) == (True, IMAGE)
        information = {"imageSpec": {"config": {"Env": ["A=value"]}, "history": [{"created_by": "ENV A=value"}]}}
        return cri.ImageStatusResponse(image=self.image, info={"info": json.dumps(information)})


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runtime that both commands talk to."""
    made = Runtime()

    @contextmanager
    def connected(_config: object, _socket: object) -> Iterator[Runtime]:
        yield made

    monkeypatch.setattr(inspect, "connected", connected)
    return made


def _said(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> str:
    assert main([*words, "--root", str(tmp_path)]) == ExitCode.OK
    return capsys.readouterr().out


@pytest.mark.usefixtures("runtime")
def test_containers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Running ones, the newest first; unknown values are a hyphen; all with -a, ids alone with -q."""
    lines = [line.split() for line in _said(capsys, tmp_path, "containers").splitlines()]
    assert lines[0] == ["CONTAINER", "ID", "POD", "CONTAINER", "STATE", "ATTEMPT", "PID", "IMAGE", "AGE", "MEMORY"]
    assert [line[:7] for line in lines[1:]] == [
        [DB[:12], OTHER[:12], "db", "Running", "2", "-", "nginx:1.25"],
        [WEB[:12], "default/web", "app", "Running", "2", "4711", "nginx:1.25"],
    ]
    assert [line[-1] for line in lines[1:]] == ["-", "1.5Mi"]
    assert _said(capsys, tmp_path, "containers", "-q").split() == [DB, WEB]
    assert _said(capsys, tmp_path, "containers", "-a", "--quiet").split() == [DB, WEB, OLD]
    assert "Exited" in _said(capsys, tmp_path, "containers", "-a")
    wide = _said(capsys, tmp_path, "containers", "-o", "wide")
    assert all(text in wide for text in (POD[:12], IMAGE[7:19], "/var/log/pods/web/app/2.log"))


@pytest.mark.usefixtures("runtime")
def test_containers_as_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With crictl's names, and what its listing lacks."""
    found = json.loads(_said(capsys, tmp_path, "containers", "-o", "json"))["containers"]
    assert [each["id"] for each in found] == [DB, WEB]
    assert (found[1]["podSandboxId"], found[1]["pid"], found[1]["memoryBytes"]) == (POD, 4711, 3 << 19)
    assert "pid" not in found[0]
    assert f"- id: {DB}" in _said(capsys, tmp_path, "containers", "-o", "yaml")


def test_no_containers(runtime: Runtime, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is a remark, and an empty list for programs."""
    runtime.containers = []
    assert main(["containers", "--root", str(tmp_path)]) == ExitCode.OK
    assert "-a lists those that have ended" in capsys.readouterr().err
    assert json.loads(_said(capsys, tmp_path, "containers", "-o", "json")) == {"containers": []}


def test_an_age() -> None:
    """From the creation on, also on a clock that was set back."""
    item = _container(WEB, POD, "app", cri.CONTAINER_RUNNING, 100)
    assert [row(ListedContainer(item), now)[7] for now in (90.0, 130.0, 100.0 + 7200)] == ["0s", "30s", "120m"]


@pytest.mark.parametrize(
    ("wanted", "kind", "key"),
    [
        (WEB, "", WEB),
        ("abc1", "", WEB),
        ("d", "", DB),
        ("web", "", POD),
        ("pod/web", "", POD),
        ("kube-system/db", "", OTHER),
        ("5b", "", POD_BEFORE),
        ("9e9e", "", IMAGE),
        (IMAGE[:15], "", IMAGE),
        (IMAGE, "", IMAGE),
        ("nginx:1.25", "", IMAGE),
        ("nginx:1.25", "image", IMAGE),
        ("d0", "container", DB),
    ],
)
def test_which_object_is_meant(wanted: str, kind: str, key: str, runtime: Any) -> None:
    """By an id, its beginning, or a name; of a pod's sandboxes the newest."""
    assert inspect.find(runtime, wanted, kind).id == key


def test_of_the_sandboxes_of_one_tick_the_last_attempt_is_meant(runtime: Any) -> None:
    """Attempt 10 follows attempt 9."""
    runtime.sandboxes[:] = [_sandbox(f"{n:064}", "default", "web", 99, attempt=n) for n in (8, 10, 9)]
    assert inspect.find(runtime, "web", "pod").id == f"{10:064}"


@pytest.mark.parametrize("wanted", ["abc", "5"])
def test_a_beginning_of_several_ids(wanted: str, runtime: Any) -> None:
    """The error names what they are."""
    with pytest.raises(EdgedError, match="several objects are meant") as refusal:
        inspect.find(runtime, wanted)
    named = ("container abc100000000 (app of default/web, running)", "container abc200000000", ", exited")
    assert all(text in str(refusal.value) for text in (named if wanted == "abc" else ("pod 5a", "pod 5b", "pod 5c")))


def test_one_name_of_several_pods(runtime: Any) -> None:
    """The namespace says which."""
    runtime.sandboxes.append(_sandbox("77" * 32, "other", "web", 1))
    with pytest.raises(EdgedError, match=r"default/web.*other/web"):
        inspect.find(runtime, "web")
    assert inspect.find(runtime, "other/web").id == "77" * 32


@pytest.mark.parametrize(
    ("wanted", "kind"), [("nosuch", ""), ("no name", ""), ("ffff", ""), ("web", "container"), ("abc1", "image")]
)
def test_no_such_object(wanted: str, kind: str, runtime: Any) -> None:
    """Also on a runtime whose images are names, which has every one; the error says what lists them."""
    with pytest.raises(EdgedError, match="`edgecore containers -a`"):
        inspect.find(runtime, wanted, kind)


@pytest.mark.usefixtures("runtime")
def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """crictl's form; values of variables are hidden, unless they are asked for."""
    shown = _said(capsys, tmp_path, "inspect", "abc1")
    assert "s3cret" not in shown
    document = json.loads(shown)
    assert (document["status"]["logPath"], document["info"]["pid"]) == ("/var/log/pods/web/app/2.log", 4711)
    assert document["info"]["runtimeSpec"]["process"]["env"] == [f"TOKEN={HIDDEN}", "EMPTY"]
    whole = json.loads(_said(capsys, tmp_path, "inspect", "abc1", "--show-env"))
    assert whole["info"]["config"] == INFORMATION["config"]
    assert json.loads(_said(capsys, tmp_path, "inspect", "web")) == {"status": {"id": POD}, "info": {}}
    image = _said(capsys, tmp_path, "inspect", "nginx:1.25", "-o", "yaml")
    assert ("docker.io/library/nginx:1.25" in image, "value" in image) == (True, False)


@pytest.mark.usefixtures("runtime")
def test_no_such_object_is_an_error_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "nosuch", "--root", str(tmp_path)]) == ExitCode.NOT_DONE
    assert "find the container, pod or image: nosuch" in capsys.readouterr().err


def test_only_root_and_the_owner_see_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other user with access to the socket."""
    socket = tmp_path / "s.sock"
    socket.touch()
    owner = socket.stat().st_uid
    for user in (0, owner):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        inspect.check_owner(socket)
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    with pytest.raises(EdgedError, match="only root and the owner"):
        inspect.check_owner(socket)
    inspect.check_owner(tmp_path / "none")


HIDING: dict[str, tuple[Any, Any]] = {
    "CRI": (
        {"envs": [{"key": "A", "value": "xyz"}, {"key": "B"}]},
        {"envs": [{"key": "A", "value": HIDDEN}, {"key": "B"}]},
    ),
    "OCI": ({"env": ["A=x=y", "B"]}, {"env": [f"A={HIDDEN}", "B"]}),
    "Docker": ({"Config": {"Env": ["A=xyz"], "Image": "xyz"}}, {"Config": {"Env": [f"A={HIDDEN}"], "Image": "xyz"}}),
    "arguments": (
        {"env": ["A=xyzw"], "args": ["--a=xyzw", "b"]},
        {"env": [f"A={HIDDEN}"], "args": [f"--a={HIDDEN}", "b"]},
    ),
    "a short value": ({"env": ["A=1"], "Cmd": ["1", "10"]}, {"env": [f"A={HIDDEN}"], "Cmd": [HIDDEN, "10"]}),
    "the longer first": (
        {"env": ["A=abcd", "B=abcdef"], "command": ["abcdef"]},
        {"env": [f"A={HIDDEN}", f"B={HIDDEN}"], "command": [HIDDEN]},
    ),
    "no value": ({"env": ["A="], "args": ["", "x"]}, {"env": [f"A={HIDDEN}"], "args": ["", "x"]}),
    "a probe": (
        {"env": ["A=abcd"], "Healthcheck": {"Test": ["CMD", "abcd"]}},
        {"env": [f"A={HIDDEN}"], "Healthcheck": {"Test": ["CMD", HIDDEN]}},
    ),
    "annotations": (
        {"env": ["A=abcd"], "annotations": {"io.kubernetes.container.preStopHandler": '{"exec":"abcd"}'}},
        {"env": [f"A={HIDDEN}"], "annotations": {"io.kubernetes.container.preStopHandler": f'{{"exec":"{HIDDEN}"}}'}},
    ),
    "a manifest": (
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}},
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": HIDDEN, "a": "b"}},
    ),
    "Docker's copy of it": (
        {"Labels": {"annotation.kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        {"Labels": {"annotation.kubectl.kubernetes.io/last-applied-configuration": HIDDEN}},
    ),
    "other things": ({"a": [1, None, True, {"b": "c"}]}, {"a": [1, None, True, {"b": "c"}]}),
    "odd forms": (
        {"env": "A=b", "envs": {"A": "b"}, "Env": [1, None], "environment": None},
        {"env": HIDDEN, "envs": HIDDEN, "Env": ["1", "None"], "environment": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HIDING)
def test_hidden_values(what: str) -> None:
    """The values of variables, their copies, and manifests."""
    given, wanted = HIDING[what]
    assert without_values(given) == wanted


@pytest.mark.parametrize("answer", [{}, {"info": ""}, {"info": "["}, {"info": "[]"}, {"other": "{}"}])
def test_a_runtime_without_information(answer: dict[str, str]) -> None:
    """Nothing is known."""
    assert information_of(answer) == {}


def test_the_control_group_of_a_process(tmp_path: Path) -> None:
    """The memory controller's where each has its own hierarchy; "" if the process has ended."""
    cases = {
        "0::/pods/a\n": "/pods/a",
        "5:cpu,cpuacct:/c\n4:memory:/pods/b\n0::/\n": "/pods/b",
        "1:name=systemd:/x\n": "",
        "odd\n": "",
    }
    (tmp_path / "9").mkdir()
    for text, wanted in cases.items():
        (tmp_path / "9/cgroup").write_text(text)
        assert inspect.cgroup_of(9, tmp_path) == wanted
    assert (inspect.cgroup_of(0), inspect.cgroup_of(8, tmp_path)) == ("", "")


def test_the_commands_take_a_node() -> None:
    """As every command on the node."""
    from modules.processes.edgecore.cli import command_line  # noqa: PLC0415 - the arguments of all commands

    _, commands = command_line()
    for name in ("containers", "inspect"):
        parser = commands.choices[name]
        assert isinstance(parser, argparse.ArgumentParser)
        assert "--root" in parser.format_help()


def test_a_name_that_no_image_can_have_is_no_image() -> None:
    """The runtime refuses it; one without images is not asked, as it knows every name."""
    image = RuntimeObject(_IMAGE, "sha256:a", "a")
    refusing = Mock(image_status=Mock(side_effect=EdgedError("look at an image")))
    assert _images_named(refusing, "A B", [image]) == []
    assert _images_named(refusing, "A B", []) == []
    assert refusing.image_status.call_count == 1
    assert _images_named(Mock(image_status=lambda _: SimpleNamespace(id="sha256:a")), "a", [image]) == [image]


def test_without_a_node_the_command_that_starts_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """gRPC's own text has the socket three times, and names a status of its own."""
    assert main(["inspect", "web", "--root", str(tmp_path)]) == ExitCode.NOT_DONE
    said = f"cannot reach the container runtime: unix://{tmp_path}/edged/embedded.sock: No such file or directory"
    hint = "is `edgecore run` running, with the same --root or --config?"
    assert capsys.readouterr().err == f"edgecore: error: {said} ({hint})\n"
