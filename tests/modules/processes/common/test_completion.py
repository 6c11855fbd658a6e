"""What a shell offers while somebody types a command."""

import argparse
import json
import os
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from modules.processes.common import completion_values
from modules.processes.common.completion import SHELLS
from modules.processes.common.completion_values import Values
from tests.end_to_end.processes import run_program
from tests.support.serving import ServedInThread

PODS = {"items": [
    {"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
    {"metadata": {"name": "dns", "namespace": "kube-system"}, "spec": {"containers": [{"name": "c"}]}},
]}  # fmt: skip
ANSWERS = {
    "/pods": PODS,
    "/api/v1/pods": PODS,
    "/api/v1/namespaces/default/pods": {"items": PODS["items"][:1]},
    "/api/v1/nodes": {"items": [{"metadata": {"name": "n1"}}]},
}


class Handler(BaseHTTPRequestHandler):
    """Answers like a control socket."""

    def do_GET(self) -> None:
        """Answer a request."""
        found = ANSWERS.get(self.path)
        content = json.dumps(found).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        """Return a name for the log."""
        return "socket"

    def log_message(self, *_: Any) -> None:
        """Do not log."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A directory where a node and a cloud seem to run."""
    (tmp_path / "edged").mkdir()
    path = tmp_path / "edged" / "edged.sock"
    server = ThreadingUnixStreamServer(str(path), Handler)
    server.daemon_threads = True
    (tmp_path / "cloudcore.sock").symlink_to(path)
    with ServedInThread(server):
        yield tmp_path


def offered(program: str, line: str, directory: Path) -> list[str]:
    """Return what is offered at the end of a line."""
    output = directory / "offered"
    environment = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(output), "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line, "COMP_POINT": str(len(line.encode())), "COMP_TYPE": "9",
    }  # fmt: skip
    patient = "tests.modules.processes.common.patient_completion"
    done = run_program(program, f"modules.processes.{program}", environment=environment, instead=patient)
    assert done.returncode == 0, done.stderr
    return sorted(each.strip() for each in output.read_text().split("\n") if each.strip())


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", ["edgecore", "cloudcore"])
def test_the_scripts(program: str, shell: str, tmp_path: Path) -> None:
    """Each is for the program, and the shell can read it, if it is there."""
    script = run_program(program, "completion", shell).stdout
    assert program in script
    file = tmp_path / "script"
    file.write_text(script)
    if shutil.which(shell):
        subprocess.run([shell, "-n", file], check=True)


def test_commands_and_options(tmp_path: Path) -> None:
    """Of both programs."""
    assert offered("edgecore", "edgecore uni", tmp_path) == ["uninstall", "unit"]
    assert offered("edgecore", "edgecore completion ", tmp_path) == sorted(SHELLS)
    assert offered("edgecore", "edgecore s", tmp_path) == ["services", "simulate", "store", "support-bundle"]
    assert "--keep-data" in offered("edgecore", "edgecore uninstall --", tmp_path)
    assert "--allow-without-tls" in offered("cloudcore", "cloudcore run --allow", tmp_path)


def test_names_of_a_running_cloud(served: Path) -> None:
    """Kinds, then names; also as kind/name, and for a resource without a namespace."""
    root = f"--root {served}"
    assert "pods" in offered("cloudcore", f"cloudcore get {root} po", served)
    assert offered("cloudcore", f"cloudcore get {root} pods w", served) == ["web"]
    assert offered("cloudcore", f"cloudcore describe {root} no n", served) == ["n1"]
    assert offered("cloudcore", f"cloudcore get {root} pod/", served) == ["pod/web"]
    assert offered("cloudcore", f"cloudcore top {root} ", served) == ["nodes", "pods"]
    assert offered("cloudcore", f"cloudcore top {root} pod w", served) == ["web"]
    assert offered("cloudcore", f"cloudcore get pods -n default {root} w", served) == ["web"]


def test_values_of_options(served: Path) -> None:
    """Also where the line ends in the option, and after names."""
    root = f"--root {served}"
    assert offered("cloudcore", f"cloudcore get {root} pods -n ", served) == ["default", "kube-system"]
    assert offered("edgecore", f"edgecore logs {root} web -c ", served) == ["a", "b"]
    assert offered("edgecore", f"edgecore logs {root} ", served) == ["kube-system/dns", "web"]


def test_keys_of_the_database(tmp_path: Path) -> None:
    """`store get` takes one; edgecore need not run."""
    with closing(sqlite3.connect(tmp_path / "edgecore.db")) as database, database:
        database.execute("CREATE TABLE meta (key, type, value, resource_version, updated, namespace)")
        database.execute("INSERT INTO meta VALUES ('default/pod/web', 'pod', '', 0, 0, 'default')")
    assert offered("edgecore", f"edgecore store get --root {tmp_path} default/p", tmp_path) == ["default/pod/web"]
    assert offered("edgecore", f"edgecore store list --root {tmp_path} p", tmp_path) == ["pod"]


@pytest.fixture
def values(served: Path, monkeypatch: pytest.MonkeyPatch) -> Values:
    """Completers that ask the server, and wait for it."""
    monkeypatch.setattr(completion_values, "SECONDS", 60.0)
    return Values(lambda _chosen: served / "edged" / "edged.sock", "/pods")


def test_values(values: Values) -> None:
    """Pods, namespaces, containers of the pod that was named before."""
    nothing = argparse.Namespace()
    assert values.pods(nothing) == ["web", "kube-system/dns"]
    assert values.pods(argparse.Namespace(namespace="kube-system")) == ["default/web", "dns"]
    assert values.namespaces(nothing) == {"default", "kube-system"}
    assert values.containers(argparse.Namespace(pod=("default", "web"))) == ["a", "b"]
    assert values.containers(argparse.Namespace(words=["pod/web"])) == ["a", "b"]
    assert "web" in values.words("w", argparse.ArgumentParser(prog="edgecore logs"), nothing)
    assert values.words("", argparse.ArgumentParser(prog="edgecore get"), argparse.Namespace(words=["x"])) == []


def test_without_an_answer_nothing_is_offered(tmp_path: Path) -> None:
    """No socket, or one behind which nobody answers within the time."""
    assert Values(lambda _chosen: tmp_path / "none").pods(argparse.Namespace()) == []
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        assert Values(lambda _chosen: tmp_path / "silent").pods(argparse.Namespace()) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_in_a_real_bash(served: Path) -> None:
    """The script, the program and the shell together."""
    script = subprocess.run(
        [sys.executable, "-m", "modules.processes.edgecore", "completion", "bash"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    program = served / "edgecore"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m modules.processes.edgecore "$@"\n')
    program.chmod(0o755)
    line = f"edgecore uninstall --root {served} --dr"
    text = (
        f"{script}\nCOMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_TYPE=9; COMP_WORDBREAKS=' =:'\n"
        f"COMP_WORDS=({line}); COMP_CWORD=4\n_python_argcomplete edgecore\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    environment = {**os.environ, "PATH": f"{served}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--dry-run"]
