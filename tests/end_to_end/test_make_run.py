"""`make run`, the first thing that a person sees: it works, says what it does, and leaves nothing behind."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.demo.examples import read_examples
from tests.end_to_end.processes import REPOSITORY, mounts_below, processes_of, wait_until
from tests.support.patience import PATIENCE

_DEMO: Final = (sys.executable, "-m", "modules.processes.demo", "--processes")
"""`test_oci` has the one with containers."""
_NAMES: Final = [name for example in read_examples(REPOSITORY / "examples") for name in example.expected]
_SHOWN: Final = [name.shown for name in _NAMES]
_ONCE: Final = ("--once", "--timeout", "600")
"""A busy machine may need more than the minute that it has by default."""


class Demo:
    """A running demo whose output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        """Lines of its output."""
        first = self.read_until("starting cloudcore and edgecore in ")
        self.scratch = Path(first.rpartition(" ")[2])

    def read_until(self, text: str) -> str:
        """The next line that has the text in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if text in line:
                return self.said[-1]
        raise AssertionError(f"it ended without saying {text!r}:\n" + "\n".join(self.said))

    def end(self) -> int:
        """Its exit status, when it has ended by itself and nothing of it is left."""
        rest, _ = self.process.communicate(timeout=PATIENCE)
        self.said += rest.splitlines()
        assert processes_of(self.scratch) == []
        assert mounts_below(self.scratch) == []
        assert not self.scratch.exists()
        return self.process.returncode

    def pid_of(self, module: str) -> int:
        """The process of one of its two children."""
        command = f"-m\0{module}\0run".encode()
        found = []
        for pid in processes_of(self.scratch):
            with suppress(OSError):  # containers come and go; before its start a container looks like edgecore
                process = Path(f"/proc/{pid}")
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and command in (process / "cmdline").read_bytes():
                    found.append(pid)
        assert len(found) == 1, found
        return found[0]


@contextmanager
def _demo(*arguments: str, command: Sequence[str] = _DEMO) -> Iterator[Demo]:
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield Demo(process)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=PATIENCE)
            process.kill()


@pytest.fixture
def ordinary_user() -> list[str]:
    """The beginning of a command line that an ordinary user runs, whoever runs the tests.

    The user is one of a user namespace, so that it may read an interpreter that is below root's home.
    """
    if os.geteuid() != 0:
        return []
    become = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    possible = subprocess.run([*become, "true"], check=False, capture_output=True, text=True)
    return become if possible.returncode == 0 else []


def test_make_run_once(ordinary_user: list[str]) -> None:
    """It ends with 0 as soon as all pods are where they should be, with a line for each change.

    Nobody need be root: all come up without any capability, isolated where that can be. As root they come up in
    `test_on_a_terminal`.
    """
    make = ["make", "--no-print-directory", "--assume-old=.venv/product", "run", f"ARGS={' '.join(_ONCE)}"]
    with _demo(command=[*ordinary_user, *make]) as demo:
        assert demo.end() == 0, "\n".join(demo.said)
    assert re.fullmatch(
        rf"all {len(_SHOWN)} pods and workloads are where they should be, after \d+\.\d s", demo.said[-1]
    )
    for name in _SHOWN:
        assert any(line.startswith(f"{name}: ") and "[as it should be]" in line for line in demo.said)
    asked = next(line for line in demo.said if line.startswith("service/shop: Answers"))
    by_pod, by_node = r"http://shop.default:\d+ asked by pod \S+", r"http://shop:\d+ at 127\.\d+\.\d+\.\d+"
    way = by_pod if demo.said[0].startswith("pods are isolated containers") else by_node
    assert re.search(rf"{way}: hello from shop-|only loopback addresses", asked)
    assert demo.said[0].startswith(("pods are isolated containers", "pods are processes of this machine; for isolated"))
    assert not any("\x1b" in line for line in demo.said), "no terminal codes in a pipe"
    assert not any(line.startswith("Warning") for line in demo.said), "the node is there before its pods"


def test_until_it_is_interrupted() -> None:
    """It goes on, what it suggests to try works as it stands, and Ctrl-\\ ends it with 0."""
    with _demo() as demo:
        _open(demo.read_until("page:").removeprefix("page:").strip())
        commands = [demo.read_until(label).removeprefix(label).strip() for label in ("watch:", "change:", "look:")]
        watch = shlex.split(commands[0])
        watch.remove("--watch")
        seen = _output_of(watch)
        assert all(name.name in seen for name in _NAMES if name.kind != "CronJob"), "its first pod is still to come"
        apply = commands[1].partition(" and ")[2]
        assert "/shop" in _output_of(shlex.split(apply))
        tail, _, curl = commands[2].partition("    or    ")
        logs = Path(tail.split()[-1].removesuffix("/*/*/*.log"))
        wait_until(lambda: any("hello from hello" in log.read_text() for log in logs.glob("*hello*/*/*.log")), "hello")
        with urllib.request.urlopen(curl.removeprefix("curl "), timeout=PATIENCE) as answer:  # noqa: S310 - of this machine
            assert b'"greeter"' in answer.read()
        demo.process.send_signal(signal.SIGQUIT)  # Ctrl-\, which must leave as little behind as Ctrl-C
        assert demo.end() == 0, "\n".join(demo.said)


def _open(address: str) -> None:
    """Opens the page as a browser does: its document, and a session for the token behind the `#`."""
    page, _, token = address.partition("#")
    with urllib.request.urlopen(page, timeout=PATIENCE) as answer:  # noqa: S310 - of this machine
        assert b'id="content"' in answer.read()
    origin = page.removesuffix("/page/")
    headers = {"Origin": origin, "X-Edgecore-Page": "1", "Content-Type": "application/json"}
    body = json.dumps({"token": token}).encode()
    request = urllib.request.Request(f"{origin}/page/v1/session", body, headers)  # noqa: S310 - of this machine
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - of this machine
        assert json.load(answer)["key"]


@pytest.mark.parametrize(
    ("moment", "impatient"),
    [
        pytest.param("at the start", False, marks=pytest.mark.slow),
        pytest.param("at the start", True, marks=pytest.mark.slow),
        pytest.param("when the node starts", False, marks=pytest.mark.slow),
        ("when the node starts", True),
        ("when pods start", False),
        pytest.param("when pods start", True, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_at_any_moment(moment: str, impatient: bool, tmp_path: Path) -> None:
    """It cleans up, also after a second Ctrl-C. One pod never arrives, so that the command does not end earlier."""
    for file in (REPOSITORY / "examples").glob("*.yaml"):
        shutil.copy(file, tmp_path)
    (tmp_path / "endless.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: endless, annotations: {edgecore.io/expect: Succeeded}}\n"
        "spec: {containers: [{name: app, image: x, command: [sleep, '1000']}]}\n"
    )
    with _demo(*_ONCE, "--examples", str(tmp_path)) as demo:
        if moment == "when the node starts":
            wait_until((demo.scratch / "edgecore.log").exists, "edgecore is started")
        elif moment == "when pods start":
            demo.read_until("Running")
        for _ in range(2 if impatient else 1):
            demo.process.send_signal(signal.SIGINT)
        assert demo.end() == ExitCode.INTERRUPTED, "\n".join(demo.said)


@pytest.mark.parametrize(
    "module", [pytest.param("modules.processes.cloudcore", marks=pytest.mark.slow), "modules.processes.edgecore"]
)
def test_a_child_that_dies(module: str) -> None:
    """The demo says so, shows the ends of the logs, ends with 1, and takes the containers with it."""
    with _demo() as demo:
        demo.read_until("look:")
        os.kill(demo.pid_of(module), signal.SIGKILL)
        assert demo.end() == 1, "\n".join(demo.said)
    assert f"{module.rpartition('.')[2]} has ended: killed by SIGKILL" in demo.said
    assert "--- the last lines of edgecore:" in demo.said


@pytest.mark.slow
def test_a_pod_that_does_not_arrive(tmp_path: Path) -> None:
    """After the time is over the reasons are printed, the pod's and the ends of the logs, and the status is 1."""
    (tmp_path / "wrong.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: wrong, annotations: {edgecore.io/expect: Succeeded}}\n"
        "spec: {restartPolicy: Never, containers: [{name: app, image: x, command: [sh, -c, exit 3]}]}\n"
    )
    with _demo("--once", "--timeout", "25", "--examples", str(tmp_path)) as demo:
        assert demo.end() == 1
    assert "wrong is Failed, not Succeeded: app: Error, exit status 3" in demo.said


def test_on_a_terminal() -> None:
    """The table is redrawn in place: the cursor goes up over the former one, and every pod is in the last one."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [*_DEMO, *_ONCE], cwd=REPOSITORY, env=environment, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        written = _all_of(ours)
        assert process.wait(PATIENCE) == 0, written
    last = written.rpartition("\x1b[J")[2]
    up = len(_SHOWN) + 1
    assert f"\x1b[{up}A" in written
    assert all(name in last for name in _SHOWN)
    assert last.count("ok ") == len(_SHOWN)


def _output_of(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout


def _all_of(terminal: int) -> str:
    """Everything until the other side is closed, which a terminal tells by an error."""
    parts = []
    with suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()
