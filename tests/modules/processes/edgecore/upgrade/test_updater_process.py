"""The launcher, and what the updater reads of a node that is a process."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any
from unittest.mock import Mock

import pytest

from modules.processes.edgecore.upgrade.commands import unit_of
from modules.processes.edgecore.upgrade.updater import observation
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import (
    UNFINISHED,
    NodeHandle,
    NodeObservation,
    Phase,
    UpgradeJournal,
)
from modules.processes.edgecore.upgrade.updater.locks import owner_of
from modules.processes.edgecore.upgrade.updater.node_control import LocalNodeControl
from modules.processes.edgecore.upgrade.updater.observation import failed_checks, observe_node, observe_settled_node
from modules.processes.edgecore.upgrade.updater.processes import end_process, surroundings_of
from modules.processes.edgecore.upgrade.updater.starting import start_updater
from tests.end_to_end.processes import wait_until
from tests.modules.processes.edgecore.upgrade.releases import journal_of
from tests.support.failing import census

STATE: dict[str, Any] = {
    "version": "1.0.0",
    "link": {"connected_at": 1.0},
    "modules": {"edged": {"state": "ready"}, "websocket": {"state": "not ready"}},
}
RUNNING = {"name": "c", "containerID": "x://1", "state": {"running": {}}}
WAITING = {"name": "w", "containerID": "x://2", "state": {"waiting": {}}}
PODS: dict[str, Any] = {
    "items": [
        {
            "metadata": {"namespace": "default", "name": "p", "uid": "u"},
            "status": {"containerStatuses": [RUNNING, WAITING]},
        },
        {"metadata": {"namespace": "default", "name": "new", "uid": "v"}},
    ]
}


class Answers(BaseHTTPRequestHandler):
    """Answers by the path."""

    answers: dict[str, bytes]

    def do_GET(self) -> None:
        """Answer."""
        body = self.answers[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """Return no name: a unix socket has none."""
        return ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log nothing."""


class NodeAnswers(dict[str, bytes]):
    """What a node answers, by path."""

    busy = 0
    """For how many answers about its state it has a pod with a worker yet, and shows containers of its last run."""

    def __getitem__(self, path: str) -> bytes:
        if not self.busy:
            return super().__getitem__(path)
        if path == "/pods":
            return super().__getitem__(path).replace(b"x://1", b"x://0")
        self.busy -= 1
        return json.dumps({**STATE, "work": {"waiting": self.busy % 2, "working": 1 - self.busy % 2}}).encode()


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[NodeAnswers]:
    """What a node on the socket `s` answers, by path."""
    found = NodeAnswers({"/edgecore/state": json.dumps(STATE).encode(), "/pods": json.dumps(PODS).encode()})
    handler = type("Handler", (Answers,), {"answers": found})
    with ThreadingUnixStreamServer(str(tmp_path / "s"), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.mark.extended
def test_what_a_node_answers(answers: NodeAnswers, tmp_path: Path) -> None:
    """And the memory of the process that answers."""
    wanted = NodeObservation("1.0.0", connected=True, unready=["websocket"], containers={"default/p u c": "x://1"})
    found = observe_node(str(tmp_path / "s"))
    assert found is not None
    assert replace(found, memory=0) == wanted
    assert found.memory > 1 << 20


@pytest.mark.extended
def test_a_node_that_has_just_started_is_observed_when_its_pods_are_seen_to(
    answers: NodeAnswers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it shows containers that a restart of the machine has ended, and no version has them run again."""
    answers.busy = 4
    found = observe_settled_node(str(tmp_path / "s"))
    assert found is not None
    assert found.containers == {"default/p u c": "x://1"}
    monkeypatch.setattr(observation, "_SETTLED_SECONDS", 0.0)
    answers.busy = 4
    found = observe_settled_node(str(tmp_path / "s"))
    assert found is not None
    assert found.containers == {"default/p u c": "x://0"}, "nor is a busy node waited for without end"


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b"null", b'{"items": [1]}', b'{"items": [{"metadata": {}}]}', b"\xff"]
)
@pytest.mark.extended
def test_a_node_that_answers_nonsense_does_not_answer(text: bytes, answers: NodeAnswers, tmp_path: Path) -> None:
    answers["/edgecore/state"] = text
    assert observe_node(str(tmp_path / "s")) is None
    assert observe_settled_node(str(tmp_path / "s")) is None
    assert observe_node(str(tmp_path / "none")) is None


def write_program(path: Path, text: str) -> Path:
    """Write a program in Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("""print('[{"check": "a", "level": "FAIL"}, {"check": "b", "level": "ok"}]'); raise SystemExit(10)""", ["a"]),
        ("print('no json')", None),
        ("print('[1]')", None),
        ("raise SystemExit(1)", None),
    ],
)
def test_what_doctor_finds(text: str, found: list[str] | None, tmp_path: Path) -> None:
    assert failed_checks(write_program(tmp_path / "edgecore", text), []) == found
    assert failed_checks(tmp_path / "none", []) is None


def test_a_process_that_holds_the_lock_is_ended(tmp_path: Path) -> None:
    code = (
        "import fcntl, os, signal, sys\n"
        "file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); print(os.getpid(), file=file, flush=True)\n"
        "print('locked', flush=True); signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "lock"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert owner_of(tmp_path / "lock") == process.pid
        end_process(process.pid)
        assert process.wait() < 0
    assert owner_of(tmp_path / "lock") == 0


def test_what_a_process_was_started_with() -> None:
    command, pipe = [sys.executable, "-c", "print(flush=True); input()"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env={"A": "b=c"}, cwd="/") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert surroundings_of(process.pid) == ({"A": "b=c"}, Path("/"))
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises((ProcessLookupError, FileNotFoundError, PermissionError)):  # the last to an ordinary user
            surroundings_of(process.pid)


def test_a_process_in_the_middle_of_an_exec_has_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node would be started without any later."""
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"")
    with pytest.raises(ProcessLookupError):
        surroundings_of(os.getpid())


def launched(installation: Installation, *words: str) -> str:
    """Start the current version by the launcher; return its output."""
    said = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parents[5])!r})\n"
         "from pathlib import Path\nfrom modules.processes.edgecore.upgrade.updater.starting import launch\n"
         f"launch(Path({str(installation.root)!r}), sys.argv[1:])", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return said.stdout + said.stderr


def make_installation(root: Path, phase: Phase) -> Installation:
    """Make an installation with an upgrade from 1.0.0 to 2.0.0 in a phase, with the link on 2.0.0."""
    installation = Installation(root)
    for version in ("1.0.0", "2.0.0"):
        write_program(
            installation.versions / version / "bin" / "edgecore", f"import sys; print('{version}', *sys.argv[1:])"
        )
    installation.state.mkdir()
    installation.activate("2.0.0")
    (installation.state / "updater.py").write_text(
        f"import os, sys; os.chdir({str(root)!r}); print(sys.argv[2:], file=open('made', 'w'), flush=True)\n"
        "os.rename('made', 'started')"
    )
    handle = NodeHandle(str(root / "node.lock"), str(root / "s"), [], [])
    before = NodeObservation("1.0.0", connected=False, unready=[], containers={})
    installation.write(UpgradeJournal("1.0.0", "2.0.0", handle, before, [], "", 3, 0), phase)
    return installation


@pytest.mark.parametrize(
    ("phase", "version", "after"),
    [
        (Phase.STAGED, "2.0.0", Phase.STAGED),
        (Phase.SWITCHING, "2.0.0", Phase.PROBATION),
        (Phase.PROBATION, "2.0.0", Phase.PROBATION),
        (Phase.ROLLING_BACK, "1.0.0", Phase.ROLLING_BACK),
        (Phase.COMMITTED, "2.0.0", Phase.COMMITTED),
        (Phase.ROLLED_BACK, "2.0.0", Phase.ROLLED_BACK),
    ],
)
@pytest.mark.extended
def test_a_start_in_each_phase(phase: Phase, version: str, after: Phase, tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "i", phase)
    assert launched(installation, "run", "--root", "x") == f"{version} run --root x\n"
    journal = journal_of(installation)
    assert journal.phase is after
    if phase in UNFINISHED:
        wait_until((installation.root / "started").exists, "the updater is started")
        assert (installation.root / "started").read_text() == "['starting']\n"


def test_other_commands_touch_nothing(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "i", Phase.ROLLING_BACK)
    assert launched(installation, "version") == "2.0.0 version\n"


def test_a_start_while_the_updater_runs_leaves_the_upgrade_to_it(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "i", Phase.ROLLING_BACK)
    with installation.locked():
        assert launched(installation, "run") == "2.0.0 run\n"


def test_a_start_beside_a_running_node_changes_no_file_of_it(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "i", Phase.ROLLING_BACK)
    with closing(os.fdopen(os.open(installation.root / "node.lock", os.O_RDWR | os.O_CREAT), "w")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        assert launched(installation, "run") == "2.0.0 run\n"
        wait_until((installation.root / "started").exists, "the updater is started")
        assert (installation.root / "started").read_text() == "[]\n"


def test_a_start_with_a_spoilt_journal(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "i", Phase.PROBATION)
    (installation.state / "journal.json").write_bytes(b"{")
    assert launched(installation, "run").startswith(("2.0.0 run\n", "edgecore: cannot go on with the upgrade"))


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the file with the words that systemd's programs were given; they print what the file `said` has."""
    text = (
        "import sys\nfrom pathlib import Path\n"
        f"directory = Path({str(tmp_path)!r})\nwords = [Path(sys.argv[0]).name, *sys.argv[1:]]\n"
        "with open(directory / 'words', 'a') as file: print(*words, file=file)\n"
        "print((directory / 'said').read_text())"
    )
    for name in ("systemctl", "systemd-run"):
        write_program(tmp_path / "programs" / name, text)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    (tmp_path / "said").write_text("2")
    return tmp_path / "words"


@pytest.mark.parametrize(("user", "option"), [(False, ""), (True, "--user ")])
@pytest.mark.extended
def test_a_node_that_systemd_runs(user: bool, option: str, systemd: Path, tmp_path: Path) -> None:
    handle = NodeHandle("", str(tmp_path / "s"), [], [], "edgecore.service", user=user)
    installation = Installation(tmp_path / "i")
    installation.state.mkdir(parents=True)
    node = LocalNodeControl(installation, handle)
    assert node.exits() == 0, "earlier restarts do not count"
    with node.stopped():
        pass
    node.start()
    (tmp_path / "said").write_text("5")
    assert node.exits() == 3
    start_updater(Installation(tmp_path / "i"), handle, is_starting=True)
    *words, started = systemd.read_text().splitlines()
    asked = f"systemctl {option}show --property=NRestarts --value edgecore.service"
    stop, start = f"systemctl {option}stop edgecore.service", f"systemctl {option}start --no-block edgecore.service"
    assert words == [asked, asked, stop, start, asked, asked]
    assert started.startswith(
        f"systemd-run {option}--quiet --unit=edgecore-updater --collect --property=Restart=on-failure"
    )
    assert started.endswith(f"-- {sys.executable} -I {tmp_path}/i/upgrade/updater.py {tmp_path}/i")


@pytest.mark.parametrize(
    ("cgroups", "main", "unit"),
    [
        ("0::/system.slice/edgecore.service\n", "7", ("edgecore.service", False)),
        ("0::/system.slice/edgecore.service/agent\n", "7", ("edgecore.service", False)),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/e.service\n", "7", ("e.service", True)),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", "7", ("", False)),
        ("0::/system.slice/cron.service\n", "8", ("", False)),
        ("", "7", ("", False)),
    ],
)
def test_which_unit_runs_a_node(cgroups: str, main: str, unit: tuple[str, bool], systemd: Path, tmp_path: Path) -> None:
    """A process that a person has started below another unit is none of systemd's."""
    (tmp_path / "said").write_text(main)
    assert unit_of(7, cgroups) == unit


def test_a_process_that_has_ended_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is held, and while it is."""
    before, gone = census(), Mock(side_effect=ProcessLookupError)
    for module, name in ((signal, "pidfd_send_signal"), (os, "pidfd_open")):
        monkeypatch.setattr(module, name, gone)
        end_process(os.getpid())
    assert gone.call_count == 2
    assert not census().more_than(before)
