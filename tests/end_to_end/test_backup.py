"""A node that is lost comes back from its backup, with its pods, while the cloud is away."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beehive.files.removal import remove_tree
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.processes import Process, processes_of, run_program, wait_until

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: n1, containers: [{name: main, image: "any:1", command: [sleep, "100000"]}]}
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[ExitStack]:
    """Ends what a test has started, and the containers below its directory."""
    with ExitStack() as made:
        yield made
    for pid in processes_of(tmp_path):
        subprocess.run(["kill", "-KILL", str(pid)], check=False)


def call(program: str, *arguments: str, text: str = "") -> str:
    """Run a command to its end; return its output."""
    done = run_program(program, *arguments, given=text)
    assert done.returncode == ExitCode.OK, done.stderr
    return done.stdout


def begin(stack: ExitStack, program: str, log: Path, *arguments: str) -> Process:
    """Start a process that ends with the test."""
    process = Process(f"modules.processes.{program}", ["run", *arguments], log)
    stack.callback(process.kill)
    return process


def configure(root: Path, cloud: str) -> None:
    """Write the configuration of a node on the process runtime."""
    text = render(EdgeCoreConfig.below(root))
    for key, value in (("hostnameOverride", "n1"), ("server", f"ws://{cloud}"), ("readOnlyPort", "0")):
        text, number = re.subn(rf"^( *{key}:) .*$", rf"\1 {value}", text, count=1, flags=re.MULTILINE)
        assert number == 1, key
    root.mkdir()
    (root / "edgecore.yaml").write_text(text)


def test_a_lost_node_comes_back(tmp_path: Path, stack: ExitStack) -> None:
    """The backup is taken while it runs; then its directory is gone, and the cloud, too."""
    cloud, node, ready = str(tmp_path / "cloud"), tmp_path / "n", tmp_path / "ready"
    cloudcore = begin(stack, "cloudcore", tmp_path / "cloud.log", "--root", cloud, "--listen", "127.0.0.1:0",
                      "--ready-file", str(ready))  # fmt: skip
    wait_until(ready.exists, "the cloud is ready")
    configure(node, ready.read_text().strip())
    options = ("--root", str(node))
    first = begin(stack, "edgecore", tmp_path / "1.log", *options, "--allow-unisolated-root")
    call("cloudcore", "apply", "-f", "-", "--root", cloud, text=POD)
    wait_until((node / "edged" / "edged.sock").exists, "the node is up")
    wait_until(lambda: "Running" in call("edgecore", "pods", *options), "the pod runs")
    assert "database/edgecore.db" in call("edgecore", "backup", str(tmp_path / "b.tgz"), *options)

    for process in (first, cloudcore):
        process.signal(signal.SIGTERM)
        assert process.wait() == ExitCode.OK, process.tail()
    for pid in processes_of(node):
        subprocess.run(["kill", "-KILL", str(pid)], check=False)
    wait_until(lambda: not processes_of(node), "nobody writes there any more")
    remove_tree(node)

    assert "files of" in call("edgecore", "restore", str(tmp_path / "b.tgz"), *options)
    begin(stack, "edgecore", tmp_path / "2.log", *options, "--allow-unisolated-root")
    wait_until((node / "edged" / "edged.sock").exists, "the node is up again")
    wait_until(lambda: "Running" in call("edgecore", "pods", *options), "the pod runs again")
