"""`cloudcore` as a person types it: real processes where they start, end or wait; other commands in this one."""

import hashlib
import io
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch
from urllib.request import urlopen

import pytest

from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.process import RunOptions
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import run_program
from tests.support.patience import PATIENCE

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: n1, containers: [{name: main, image: "busybox:1.35"}]}
"""
NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}}"
pytestmark = pytest.mark.timeout(600)  # many processes that take seconds each on a busy machine

PROGRAM = [sys.executable, "-m", "modules.processes.cloudcore"]


def done_here(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in this process."""
    given, said, errors = io.TextIOWrapper(io.BytesIO(text.encode())), io.StringIO(), io.StringIO()
    with patch.object(sys, "stdin", given), redirect_stdout(said), redirect_stderr(errors):
        try:
            status = main(list(arguments))
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, status, said.getvalue(), errors.getvalue())


class Running:
    """A stub in a process of its own."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        arguments = ["run", "--listen", "127.0.0.1:0", "--socket", str(directory / "control"), *options]
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.first_line = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        killer = threading.Timer(PATIENCE, self.process.kill)
        killer.start()
        try:
            return self.process.stdout.readline()
        finally:
            killer.cancel()

    def do(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return done_here(*arguments, "--socket", str(self.directory / "control"), text=text)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One for all tests; each leaves no pod."""
    directory = tmp_path_factory.mktemp("cloud")
    (directory / "manifests").mkdir()
    options = ("--manifests", str(directory / "manifests"), "--ready-file", str(directory / "ready"))
    started = Running(directory, *options)
    yield started
    started.end(signal.SIGKILL)


@pytest.mark.extended
def test_it_prints_its_address_and_ends_with_sigterm(tmp_path: Path) -> None:
    running = Running(tmp_path, "--ready-file", str(tmp_path / "ready"))
    try:
        assert running.first_line.startswith("cloudcore: listening on ws://127.0.0.1:")
        address = (tmp_path / "ready").read_text().strip()
        assert f"ws://{address}," in running.first_line
    finally:
        assert running.end() == 0
    assert not (tmp_path / "control").exists()


def test_apply_get_delete(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    assert running.do("apply", "-f", str(file)).stdout == "pod/web created\n"
    assert running.do("apply", "-f", "-", text=POD).stdout == "pod/web unchanged\n"
    assert running.do("get", "pods").stdout.splitlines()[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    shown = json.loads(running.do("get", "po", "web", "-o", "json").stdout)
    assert shown["spec"]["restartPolicy"] == "Always"
    assert running.do("get", "po", "-A", "-o", "name").stdout == "pod/web\n"
    assert "uid: " in running.do("get", "po", "web", "-o", "yaml").stdout
    deleted = running.do("delete", "-f", str(file), "--grace", "0")
    assert (deleted.returncode, deleted.stdout) == (0, 'pod "web" force deleted\n')
    gone = running.do("get", "pod", "web")
    assert gone.returncode == 1
    assert 'pods "web" not found' in gone.stderr
    assert "No resources found" in running.do("get", "pods").stderr


@pytest.mark.extended
def test_a_refused_manifest_is_named_with_line_and_reason(running: Running) -> None:
    unreadable = running.do("apply", "-f", "-", text="a: [")
    assert (unreadable.returncode, unreadable.stdout) == (1, "")
    assert "standard input:2: did not find expected node content" in unreadable.stderr
    refused = running.do("apply", "-f", "-", text=POD.replace("busybox:1.35", ""))
    assert refused.returncode == 1
    assert "spec.containers[0].image: Required value" in refused.stderr


@pytest.mark.extended
def test_a_manifest_in_the_directory_is_found_by_itself(running: Running) -> None:
    watching = subprocess.Popen(
        [*PROGRAM, "get", "pods", "--watch", "-o", "name", "--socket", str(running.directory / "control")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        new = running.directory / "manifests" / ".pod.yaml"
        new.write_text(POD)
        file = new.rename(running.directory / "manifests" / "pod.yaml")
        assert watching.stdout is not None
        assert watching.stdout.readline() == "pod/web\n"
    finally:
        watching.kill()
        watching.communicate()
    file.unlink()
    running.do("delete", "pod/web", "--force")


def test_a_wrong_command_line_is_a_usage_error() -> None:
    for arguments in (["run", "--listen", "nowhere"], ["delete", "--odd"], ["gett"], ["token", "lst"]):
        assert done_here(*arguments).returncode == 2, arguments


@pytest.mark.parametrize("option", ["--listen", "--https-listen", "--tunnel-listen", "--router-listen"])
@pytest.mark.parametrize("value", ["localhost", "localhost:", "localhost:99999", "10000"])
def test_an_address_needs_a_port(option: str, value: str) -> None:
    """The error names the option and has an example."""
    done = done_here("run", option, value)
    said = f"cloudcore run: {option} {value}: an address and a port are wanted, as in localhost:10000\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_the_name_alone_prints_the_help() -> None:
    """As kubectl does."""
    done = done_here()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: cloudcore ")


@pytest.mark.extended
def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    """`cloudcore … | head -0`: exit status 0 and not a word."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*PROGRAM, "version"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("address", ["0.0.0.0", "[::]", "192.0.2.1"])  # noqa: S104 - never bound
def test_without_tls_it_listens_for_this_machine_only(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody who reaches it can be any node: that has to be said."""
    started: list[RunOptions] = []

    def run(options: RunOptions) -> int:
        started.append(options)
        return ExitCode.OK

    monkeypatch.setattr("modules.processes.cloudcore.process.run", run)
    arguments = ["run", "--listen", f"{address}:10000", "--socket", str(tmp_path / "s")]
    assert main(arguments) == ExitCode.USAGE
    assert "--allow-without-tls" in capsys.readouterr().err
    assert started == []
    assert main([*arguments, "--allow-without-tls"]) == ExitCode.OK
    assert main([*arguments, "--tls", "--tls-dir", str(tmp_path)]) == ExitCode.OK
    assert main(["run", "--listen", "localhost:10000", "--socket", str(tmp_path / "s")]) == ExitCode.OK
    assert len(started) == 3


@pytest.mark.extended
def test_a_pod_that_is_deleted_is_waited_for_until_it_is_gone(running: Running) -> None:
    """Its node would end it; here a second command removes it immediately. Without a Node, cloudcore would."""
    assert running.do("apply", "-f", "-", text=f"{POD}---\n{NODE}").returncode == 0
    arguments = ["delete", "pod", "web", "--socket", str(running.directory / "control")]
    with subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == "waiting until pod/web is gone (--wait=false does not wait)\n"
        assert running.do("get", "pod/web", "--no-headers").stdout.split()[2] == "Terminating"
        assert running.do("delete", "pod/web", "--force").returncode == 0
        assert waiting.communicate(timeout=PATIENCE)[0] == 'pod "web" deleted\n'
    assert waiting.returncode == 0
    assert running.do("delete", "node/n1").returncode == 0


@pytest.mark.extended
def test_interrupting_a_watch_is_no_traceback(running: Running) -> None:
    assert running.do("apply", "-f", "-", text=POD).returncode == 0
    arguments = ["get", "pods", "-w", "--output-watch-events", "--socket", str(running.directory / "control")]
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[0] == "EVENT"
        assert watching.stdout.readline().split()[:2] == ["ADDED", "web"]
        assert running.do("label", "pod/web", "a=b").returncode == 0
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "web"]
        watching.send_signal(signal.SIGINT)
        assert watching.communicate(timeout=PATIENCE)[1] == ""
    assert watching.returncode == ExitCode.INTERRUPTED
    running.do("delete", "pod/web", "--force")


@pytest.mark.extended
def test_a_cloudcore_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    arguments = ["get", "pods", "--root", str(tmp_path)]
    done = run_program("cloudcore", *arguments)
    assert done.returncode == 1
    assert "is `cloudcore run` running, with this --root?" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.extended
def test_an_address_in_use_is_a_failed_start(running: Running, tmp_path: Path) -> None:
    address = (running.directory / "ready").read_text().strip()
    arguments = ["run", "--listen", address, "--socket", str(tmp_path / "other")]
    done = run_program("cloudcore", *arguments)
    assert done.returncode == 4
    assert f"the port is taken by process {running.process.pid} (" in done.stderr
    assert "--listen chooses another" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.extended
def test_with_tls_a_token_and_the_ca_are_to_be_had(tmp_path: Path) -> None:
    """The ready file names both addresses; a token begins with the hash of the CA that is served."""
    listen = ("--https-listen", "127.0.0.1:0", "--tls-dir", str(tmp_path / "tls"))
    stub = Running(tmp_path, "--tls", *listen, "--ready-file", str(tmp_path / "ready"))
    try:
        websocket, https = (tmp_path / "ready").read_text().splitlines()
        assert f"wss://{websocket}, https://{https}" in stub.first_line
        context = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))
        with urlopen(f"https://{https}/ca.crt", timeout=PATIENCE, context=context) as answer:
            ca = answer.read()
        token = stub.do("token")
        assert re.fullmatch(r"[0-9a-f]{64}(\.[\w-]+){3}\n", token.stdout)
        assert token.stdout.partition(".")[0] == hashlib.sha256(ca).hexdigest()
        wrong = stub.do("token", "--lifetime", "400000h")
        assert (wrong.returncode, wrong.stdout) == (1, "")
    finally:
        assert stub.end() == 0


def test_without_tls_there_are_no_tokens(running: Running) -> None:
    """The error says which option is missing."""
    done = running.do("token")
    assert done.returncode == 1
    assert "--tls" in done.stderr


@pytest.mark.extended
def test_an_authority_that_is_broken_is_a_failed_start(tmp_path: Path) -> None:
    """A message and no traceback."""
    (tmp_path / "ca.crt").write_text("nonsense")
    done = run_program("cloudcore", "run", "--tls", "--tls-dir", str(tmp_path), "--socket", str(tmp_path / "s"))
    assert done.returncode == 4
    assert "only ca.crt is there" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kubeconfig",), "kubectl --server http://127.0.0.1:8080"),
        (("run", "--secure-port", "6443"), "--insecure-port 8080"),
        (("run", "--config", "cloudcore.yaml"), "KubeEdge's cloudcore.yaml is not read"),
    ],
)
def test_a_refusal_names_the_way_that_works(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = done_here(*arguments, "--root", str(tmp_path))
    assert done.returncode
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
