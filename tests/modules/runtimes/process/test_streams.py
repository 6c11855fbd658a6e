"""exec, attach and port-forward of the process runtime, as a client of Kubernetes sees them (WebSocket, v5)."""

import os
import pwd
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from modules.runtimes.process import streams
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci import test_streams as of_oci
from tests.modules.runtimes.oci.network.machine import needs_root
from tests.modules.runtimes.process.node import LocalNode, wait_for_death
from tests.modules.runtimes.stream_client import RESIZE, STDIN, STDOUT, streaming_session

_ALIKE = (
    of_oci.test_a_command_with_all_streams,
    of_oci.test_a_command_with_a_terminal,
    of_oci.test_an_attached_shell,
    of_oci.test_a_port_of_the_machine,
    partial(of_oci.test_what_does_not_run_has_no_streams, method="Exec"),
    partial(of_oci.test_what_does_not_run_has_no_streams, method="Attach"),
)


def _name(behaviour: Callable[..., None]) -> str:
    function = getattr(behaviour, "func", behaviour)
    return "-".join([function.__name__, *getattr(behaviour, "keywords", {}).values()])


def _exec(node: LocalNode, container: str, *command: str, **asked: bool) -> str:
    asked = {"stdout": True, "stderr": not asked.get("tty"), **asked}
    return str(node.cri.Exec(cri.ExecRequest(container_id=container, cmd=command, **asked)).url)


def _attach(node: LocalNode, container: str, *, tty: bool = False) -> str:
    return str(node.cri.Attach(cri.AttachRequest(container_id=container, stdin=True, stdout=True, tty=tty)).url)


@pytest.mark.parametrize("behaviour", _ALIKE, ids=_name)
def test_like_the_oci_runtime(node: LocalNode, behaviour: Callable[[LocalNode], None]) -> None:
    """Each behaviour that both have is held to the same test."""
    behaviour(node)


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
def test_a_command_that_cannot_be_executed(node: LocalNode, *, tty: bool) -> None:
    """It did not run, so it has no exit code; the reason has this runtime's words."""
    container = node.shell("exec sleep 1000")
    with streaming_session(_exec(node, container, "nosuch", tty=tty)) as session:
        status = session.status()
    assert (status["status"], status["reason"]) == ("Failure", "InternalError")
    assert 'command "nosuch" was not found on this machine in PATH=' in status["message"]


def test_a_command_is_like_its_container(node: LocalNode, tmp_path: Path) -> None:
    """It has its environment, directory and OOM score, and edgecore's own user."""
    config = cri.ContainerConfig(working_dir=str(tmp_path), envs=[cri.KeyValue(key="SAID", value=b"hello")])
    config.linux.resources.oom_score_adj = 700
    container = node.shell("exec sleep 1000", config)
    script = "pwd; echo $SAID $TERM; cat /proc/self/oom_score_adj; id -u"
    with streaming_session(_exec(node, container, "sh", "-c", script)) as session:
        session.status()
    assert session.received[STDOUT].decode().split("\n") == [str(tmp_path), "hello", "700", str(os.geteuid()), ""]


@needs_root
def test_a_terminal_belongs_to_the_containers_user(node: LocalNode) -> None:
    """It may open it again by its name, as a password prompt does."""
    user = pwd.getpwnam("nobody")
    config = cri.ContainerConfig()
    config.linux.security_context.run_as_user.value = user.pw_uid
    container = node.shell("exec sleep 1000", config)
    script = "echo again >$(tty); echo and >/dev/tty; id -u; echo $TERM; exit 6"
    with streaming_session(_exec(node, container, "sh", "-c", script, tty=True)) as session:
        status = session.status()
    assert session.received[STDOUT].decode().split() == ["again", "and", str(user.pw_uid), "xterm"]
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "6"}]


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
def test_a_client_that_goes_ends_its_command(node: LocalNode, *, tty: bool) -> None:
    """With its child processes, also if these are a shell's jobs, in groups of their own."""
    container = node.shell("exec sleep 1000")
    script = "set -m; sleep 1000 & echo $$ $! >pids; echo up; wait"
    with streaming_session(_exec(node, container, "sh", "-c", script, tty=tty)) as session:
        session.until(STDOUT, b"up")
    for pid in (node.state / "containers" / container / "work/pids").read_text().split():
        wait_for_death(int(pid))
    assert node.status(container).state == cri.CONTAINER_RUNNING


def test_a_command_ends_with_its_container(node: LocalNode) -> None:
    """Its client learns an exit code: the kill's."""
    container = node.shell("exec sleep 1000")
    with streaming_session(_exec(node, container, "sh", "-c", "echo up; exec sleep 1000")) as session:
        session.until(STDOUT, b"up")
        node.stop(container, 0)
        status = session.status()
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "137"}]


def test_long_output_comes_whole(node: LocalNode) -> None:
    """A command's, and an attached container's, up to its end; the log has it too."""
    container = node.start(node.create(["sh"], cri.ContainerConfig(stdin=True, stdin_once=True)))
    with streaming_session(_exec(node, container, "seq", "200000")) as session:
        session.status()
    assert session.received[STDOUT].split() == [b"%d" % number for number in range(1, 200_001)]
    with streaming_session(_attach(node, container)) as attached:
        attached.send(STDIN, b"seq 200000; exit 3\n")
        attached.status()
    assert attached.received[STDOUT] == session.received[STDOUT]
    assert node.ended(container).exit_code == 3
    assert "".join(f"{text}\n" for *_, text in node.log(container)).encode() == session.received[STDOUT]


def test_an_attached_terminal(node: LocalNode) -> None:
    """A container may have one: it echoes what is typed, has the client's size, and its log ends lines as it does."""
    container = node.start(node.create(["sh"], cri.ContainerConfig(stdin=True, tty=True)))
    with streaming_session(_attach(node, container, tty=True)) as session:
        session.send(RESIZE, b'{"Width":91,"Height":33}\n')
        session.send(STDIN, b"stty size; echo $TERM\n")
        session.until(STDOUT, b"33 91\r\nxterm\r\n")
    with streaming_session(_attach(node, container, tty=True)) as session:
        session.send(STDIN, b"exit 4\n")
        session.status()
    assert node.ended(container).exit_code == 4
    assert b"33 91\r\n" in Path(node.status(container).log_path).read_bytes()


def test_input_without_a_client_waits(node: LocalNode) -> None:
    """A container with input does not see its end before a client has come and gone (stdinOnce)."""
    container = node.start(node.create(["cat"], cri.ContainerConfig(stdin=True, stdin_once=True)))
    with streaming_session(_attach(node, container)) as session:
        session.send(STDIN, b"hello\n")
        session.until(STDOUT, b"hello\n")
    assert node.ended(container).exit_code == 0


def test_streams_after_a_restart_of_edgecore(node: LocalNode) -> None:
    """The shim of the earlier edgecore serves them; that edgecore's commands have ended with it."""
    container = node.start(node.create(["sh"], cri.ContainerConfig(stdin=True)))
    script = "echo $$ >pid; echo up; exec sleep 1000"
    with streaming_session(_exec(node, container, "sh", "-c", script)) as session:
        session.until(STDOUT, b"up")
        node.restart()
    wait_for_death(int((node.state / "containers" / container / "work/pid").read_text()))
    with streaming_session(_attach(node, container)) as session:
        session.send(STDIN, b"echo here; exit\n")
        session.until(STDOUT, b"here")
    assert node.ended(container).exit_code == 0


def test_a_shim_of_an_older_edgecore(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers what it does not know with nothing; the client learns what to do."""
    ask = streams._ask
    monkeypatch.setattr(streams, "_ask", lambda link, attempt, _operation, descriptors, **fields:
                        ask(link, attempt, "of-tomorrow", descriptors, **fields))  # fmt: skip
    container = node.shell("exec sleep 1000")
    with streaming_session(_exec(node, container, "true")) as session:
        message = session.status()["message"]
    assert message.endswith("an older edgecore started it, and its shim has no streams (let the container start again)")


def test_no_stream_holds_up_the_others(node: LocalNode) -> None:
    """A client that is behind holds up the output of its container for a while, and no command beside it."""
    container = node.start(node.create(["sh"], cri.ContainerConfig(stdin=True)))
    with streaming_session(_attach(node, container)) as session:
        session.send(STDIN, b"head -c 4000000 /dev/zero | tr '\\0' y | fold -w 1000; echo; echo done\n")
        assert node.execute(container, "echo", "beside").stdout == b"beside\n"
    node.logged(container, "done")
    assert sum(len(text) for *_, text in node.log(container)) == 4_000_004
