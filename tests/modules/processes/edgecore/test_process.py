"""`edgecore run` with faults: its messages and its exit status."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.ownership import LOCK_FILE
from tests.end_to_end.processes import Process, wait_until
from tests.support.own_node import alone
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `edgecore run` on the process runtime; keywords are settings of the kubelet's section."""
    started: list[Process] = []

    def run(root: Path, **kubelet: Any) -> Process:
        number = len(started)
        file = tmp_path / f"edgecore-{number}.yaml"
        file.write_text(render(_config(root, {"read_only_port": 0, **kubelet})))
        started.append(
            Process("modules.processes.edgecore", ["run", "--config", str(file)], tmp_path / f"{number}.log")
        )
        return started[-1]

    yield run
    for process in started:
        if process.runs:
            process.kill()


def _config(root: Path, kubelet: dict[str, Any]) -> EdgeCoreConfig:
    config = alone(EdgeCoreConfig.below(root))
    edged = config.modules.edged
    changed = msgspec.structs.replace(edged.tailored_kubelet_config, **kubelet)
    edged = msgspec.structs.replace(edged, tailored_kubelet_config=changed, allow_unisolated_root=True)
    return msgspec.structs.replace(config, modules=msgspec.structs.replace(config.modules, edged=edged))


def _runs(process: Process) -> None:
    wait_until(lambda: "is running" in process.text() or not process.runs, "edgecore is running")
    assert process.runs, process.tail()


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_root_directory_that_cannot_be_made(start: Start, tmp_path: Path) -> None:
    """The message names it and the setting."""
    (tmp_path / "file").write_text("")
    process = start(tmp_path / "file" / "root")
    assert process.wait() == ExitCode.START_FAILED
    assert f"cannot start: cannot use the root directory: {tmp_path / 'file' / 'root'}" in process.text()
    assert "rootDirectory" in process.text()


def test_another_edgecore_on_the_same_root_directory_is_refused(start: Start, tmp_path: Path) -> None:
    """And the first goes on; when it is gone, even by SIGKILL, the directory is free."""
    first = start(tmp_path / "node")
    _runs(first)
    second = start(tmp_path / "node")
    assert second.wait() == ExitCode.START_FAILED
    assert "another edgecore runs on the root directory" in second.text()
    assert f"process {first.pid} has it" in second.text()
    assert first.runs
    first.kill()
    third = start(tmp_path / "node")
    _runs(third)
    third.signal(signal.SIGTERM)
    assert third.wait() == ExitCode.OK


def test_a_port_that_is_taken(start: Start, tmp_path: Path) -> None:
    """The message names the address and the setting, and nothing was started before it was found out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(tmp_path / "node", read_only_port=port)
        assert process.wait() == ExitCode.START_FAILED
    assert f"cannot start: cannot serve on: 127.0.0.1:{port}" in process.text()
    assert "readOnlyPort" in process.text()


def test_a_file_that_is_no_database(start: Start, tmp_path: Path) -> None:
    """The node runs all the same; what was there is set aside and said, not overwritten."""
    database = tmp_path / "node" / "edgecore.db"
    database.parent.mkdir()
    database.write_bytes(b"these are the notes of somebody else\n" * 100)
    process = start(tmp_path / "node")
    _runs(process)
    (aside,) = database.parent.glob("edgecore.db.bad-*")
    assert aside.read_bytes().startswith(b"these are the notes")
    assert aside.name in process.text()
    assert "Traceback" not in process.text()


def test_a_runtime_that_is_not_there(start: Start, tmp_path: Path) -> None:
    """edgecore runs all the same, says once what is wrong, serves, and ends cleanly."""
    port = free_port()
    elsewhere = {"container_runtime_endpoint": f"unix://{tmp_path}/none.sock", "cgroups_per_qos": False}
    process = start(tmp_path / "node", read_only_port=port, **elsewhere)
    _runs(process)
    wait_until(lambda: "the container runtime does not answer" in process.text(), "the missing runtime is logged")
    wait_until(lambda: _get(port, "/healthz") == (200, "ok"), "every module is ready")
    assert json.loads(_get(port, "/pods")[1])["items"] == []
    process.signal(signal.SIGTERM)
    assert process.wait() == ExitCode.OK
    assert process.text().count("the container runtime does not answer") == 1


def test_sigterm_while_it_starts(start: Start, tmp_path: Path) -> None:
    """It ends cleanly, as soon as what has begun to start can be stopped."""
    process = start(tmp_path / "node")
    lock = _config(tmp_path / "node", {}).modules.edged.root_directory / LOCK_FILE
    wait_until(lock.exists, "edgecore has begun to start")
    process.signal(signal.SIGTERM)
    assert process.wait() == ExitCode.OK
    assert "Traceback" not in process.text()


def test_a_recording_that_is_asked_for_too_early_does_not_end_it() -> None:
    """The signal comes before the command line has been read."""
    early = "import os, signal, sys; from modules.processes.edgecore import __main__, cli; sys.argv[1:] = ['run']; "
    early += "cli.main = lambda: os.kill(os.getpid(), signal.SIGUSR2); sys.exit(__main__.main())"
    assert subprocess.run([sys.executable, "-c", early], check=False).returncode == ExitCode.OK


def test_the_lock_is_not_inherited_by_what_edgecore_starts(start: Start, tmp_path: Path) -> None:
    """A shim outlives edgecore; with the lock it would keep the next edgecore out."""
    process = start(tmp_path / "node")
    _runs(process)
    lock = str(_config(tmp_path / "node", {}).modules.edged.root_directory / LOCK_FILE)

    def only_it_has_it() -> bool:
        """Also a child between fork and exec has what its parent has."""
        holders = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal() and _has(entry, lock)]
        return holders == [process.pid]

    wait_until(only_it_has_it, "only edgecore has the lock")


def _has(process: Path, path: str) -> bool:
    try:
        return any(str(descriptor.readlink()) == path for descriptor in (process / "fd").iterdir())
    except OSError:
        return False
