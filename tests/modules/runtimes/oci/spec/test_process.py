"""The process of a container: command line, environment, directory, stop signal, exec."""

import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec import check_container, exec_process, stop_signal
from modules.runtimes.oci.spec.process import DEFAULT_PATH
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import IMAGE, UNIFIED, SampleImage, request, translated


@pytest.mark.parametrize(
    ("command", "args", "entrypoint", "cmd", "expected"),
    [
        (["a"], ["b"], ("e",), ("c",), ["a", "b"]),
        (["a"], [], ("e",), ("c",), ["a"]),
        ([], ["b"], ("e",), ("c",), ["e", "b"]),
        ([], [], ("e", "f"), ("c",), ["e", "f", "c"]),
        ([], [], ("e",), (), ["e"]),
        ([], [], (), ("c",), ["c"]),
        ([], ["b"], (), ("c",), ["b"]),
        ([], [], ("",), ("c",), ["c"]),
        ([], ["b"], ("",), (), ["b"]),
    ],
)
def test_the_command_line(
    tmp_path: Path,
    command: list[str],
    args: list[str],
    entrypoint: tuple[str, ...],
    cmd: tuple[str, ...],
    expected: list[str],
) -> None:
    """A command replaces all of the image's, arguments its arguments; an entrypoint of one empty text is none."""
    image = SampleImage(entrypoint=entrypoint, command=cmd)
    spec = translated(cri.ContainerConfig(command=command, args=args), tmp_path, image)
    assert spec.config["process"]["args"] == expected


@pytest.mark.parametrize("entrypoint", [(), ("",)])
def test_no_command_at_all(entrypoint: tuple[str, ...]) -> None:
    """It is refused when the container is made."""
    with pytest.raises(BadRequestError, match="no command specified"):
        check_container(request(), SampleImage(entrypoint=entrypoint, command=()), UNIFIED)


def test_the_environment(tmp_path: Path) -> None:
    """The usual, the image's, the pod's: the last of a name counts, in the place of the first."""
    image = SampleImage(environment=("PATH=/image", "A=1", "B=2", "no value", "=x"))
    envs = [
        cri.KeyValue(key="A", value=b"pod=1"),
        cri.KeyValue(key="C", value=b""),
        cri.KeyValue(key="A", value=b"last"),
    ]
    spec = translated(cri.ContainerConfig(envs=envs, tty=True), tmp_path, image)
    assert spec.config["process"]["env"] == [
        "PATH=/image",
        "HOSTNAME=web-host",
        "HOME=/",
        "TERM=xterm",
        "A=last",
        "B=2",
        "no value=",
        "C=",
    ]
    assert spec.config["process"]["terminal"] is True
    assert translated(cri.ContainerConfig(), tmp_path).config["process"]["env"][0] == f"PATH={DEFAULT_PATH}"


@pytest.mark.parametrize(
    ("user", "mount", "home"),
    [(0, "/data", None), (7, "/data", "HOME=/"), (7, "/etc/passwd", None), (7, "/etc/", None)],
)
def test_a_user_without_an_entry_in_passwd_has_the_root_as_home(
    tmp_path: Path, user: int, mount: str, home: str | None
) -> None:
    """The runtime reads the others', also in a file that is mounted there."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (tmp_path / "source").write_text("")
    config = cri.ContainerConfig(mounts=[cri.Mount(container_path=mount, host_path=str(tmp_path / "source"))])
    config.linux.security_context.run_as_user.value = user
    environment = translated(config, tmp_path).config["process"]["env"]
    assert next((each for each in environment if each.startswith("HOME=")), None) == home


@pytest.mark.parametrize(
    ("asked", "of_image", "expected"), [("/a", "/b", "/a"), ("", "/b", "/b"), ("", "", "/"), ("", "b", "/b")]
)
def test_the_working_directory(tmp_path: Path, asked: str, of_image: str, expected: str) -> None:
    """The pod's, the image's, the root."""
    spec = translated(cri.ContainerConfig(working_dir=asked), tmp_path, SampleImage(working_directory=of_image))
    assert spec.config["process"]["cwd"] == expected


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (cri.ContainerConfig(command=["a\0b"]), "NUL"),
        (cri.ContainerConfig(command=["a" * 200_000]), "more than 131072"),
        (cri.ContainerConfig(command=["a", "b" * 131_072]), "more than 131072"),
        (cri.ContainerConfig(command=["é" * 65_536]), "more than 131072"),
        (cri.ContainerConfig(working_dir="tmp"), "not absolute"),
        (cri.ContainerConfig(envs=[cri.KeyValue(key="", value=b"x")]), "name is empty"),
        (cri.ContainerConfig(envs=[cri.KeyValue(key="A=B", value=b"x")]), "name is empty or holds '='"),
        (cri.ContainerConfig(envs=[cri.KeyValue(key="A", value=b"\xff")]), "is not UTF-8"),
        (cri.ContainerConfig(envs=[cri.KeyValue(key="AB", value=b"x" * 131_070)]), "longer than 131072"),
        (cri.ContainerConfig(log_path="../x"), "leaves the log directory"),
    ],
)
def test_what_can_never_start(config: cri.ContainerConfig, told: str) -> None:
    """Refused when the container is made, with the reason; no value of a variable is in it."""
    with pytest.raises(BadRequestError, match=told):
        check_container(request(config), IMAGE, UNIFIED)


def test_half_a_character_of_an_image() -> None:
    """JSON may hold it, a file for the runtime may not."""
    with pytest.raises(BadRequestError, match="half a character"):
        check_container(request(), SampleImage(command=("\ud800",)), UNIFIED)


def test_exec_has_all_but_command_and_terminal(tmp_path: Path) -> None:
    """The container's process with other arguments; a terminal has a type."""
    config = cri.ContainerConfig(envs=[cri.KeyValue(key="TERMINAL", value=b"x")])
    config.linux.resources.oom_score_adj = 5
    spec = translated(config, tmp_path).config
    process = exec_process(spec, ["ls", "-l"], tty=True)
    assert (process["args"], process["terminal"]) == (["ls", "-l"], True)
    assert process["env"] == [*spec["process"]["env"], "TERM=xterm"]
    same = ("user", "cwd", "capabilities", "noNewPrivileges", "oomScoreAdj")
    assert {key: process[key] for key in same} == {key: spec["process"][key] for key in same}


@pytest.mark.parametrize(
    ("asked", "of_image", "expected"),
    [
        (cri.SIGNAL_SIGUSR1, "SIGKILL", signal.SIGUSR1),
        (cri.SIGNAL_SIGRTMINPLUS3, "", 37),
        (cri.SIGNAL_SIGRTMAXMINUS14, "", 50),
        (cri.SIGNAL_SIGCLD, "", signal.SIGCHLD),
        (cri.SIGNAL_RUNTIME_DEFAULT, "SIGQUIT", signal.SIGQUIT),
        (cri.SIGNAL_RUNTIME_DEFAULT, "quit", signal.SIGQUIT),
        (cri.SIGNAL_RUNTIME_DEFAULT, "37", 37),
        (cri.SIGNAL_RUNTIME_DEFAULT, "SIGRTMIN+3", 37),
        (cri.SIGNAL_RUNTIME_DEFAULT, "SIGRTMIN", 34),
        (cri.SIGNAL_RUNTIME_DEFAULT, "", signal.SIGTERM),
        (cri.SIGNAL_RUNTIME_DEFAULT, "SIGRTMIN+99", signal.SIGTERM),
        (cri.SIGNAL_RUNTIME_DEFAULT, "SIGNOT", signal.SIGTERM),
        (cri.SIGNAL_RUNTIME_DEFAULT, "99", signal.SIGTERM),
    ],
)
def test_the_stop_signal(asked: "cri.Signal.ValueType", of_image: str, expected: int) -> None:
    """The pod's, the image's, SIGTERM."""
    assert stop_signal(cri.ContainerConfig(stop_signal=asked), SampleImage(stop_signal=of_image)) == expected


@given(asked=st.sampled_from(cri.Signal.values()), of_image=st.text(max_size=14))
def test_there_is_always_a_signal(asked: "cri.Signal.ValueType", of_image: str) -> None:
    """For any image, the signal can be sent."""
    number = stop_signal(cri.ContainerConfig(stop_signal=asked), SampleImage(stop_signal=of_image))
    assert number in signal.valid_signals()
