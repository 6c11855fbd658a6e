"""A person's day at the node: kubectl's verbs over its own socket, with a cloud and without one."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import RUN, config_map, container, is_ready, mount, pod
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.end_to_end.runtimes import RuntimeUnderTest
from tests.end_to_end.test_looking_in import command, edgecore, web_server
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


def lines(machine: Machine, *arguments: str) -> list[list[str]]:
    """The words of each line that a command prints, which must succeed."""
    done = edgecore(machine, *arguments)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_the_api_of_the_node(machine: Machine) -> None:
    """Pods with the status of this moment, configmaps, secrets, the node, its events; with the cloud and without."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "data": {"x": "eA=="},
    }
    volumes = ({"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}})
    made = pod("p", container(volumeMounts=[mount("c", "/c"), mount("s", "/s")]), volumes=volumes)
    made["metadata"]["labels"] = {"app": "web"}
    machine.cloud.apply(config_map("c", key="value"), secret, made, pod("other"))
    machine.cloud.pods.wait("p", is_ready)
    machine.cloud.pods.wait("other", is_ready)
    for connected in (True, False):
        if not connected:
            machine.cloud.kill()
        assert lines(machine, "get", "pods", "-l", "app=web")[1][:4] == ["p", "1/1", "Running", "0"]
        assert lines(machine, "get", "pod/p", "-o", "jsonpath={.status.phase}") == [["Running"]]
        assert lines(machine, "get", "cm/c", "-o", "jsonpath={.data.key}") == [["value"]]
        assert lines(machine, "get", "secret", "s", "-o", "jsonpath={.data.x}") == [["eA=="]]
        assert lines(machine, "get", "nodes")[1][:2] == [NODE, "Ready"]
        wait_until(lambda: "Started" in {line[2] for line in lines(machine, "get", "events")}, "its events are there")
        assert any("Started container app" in " ".join(line) for line in lines(machine, "events", "--for", "pod/p"))
        assert ["Name:", "p"] in lines(machine, "describe", "pod", "p")
        assert edgecore(machine, "wait", "--for=condition=Ready", "pod/p").returncode == 0
        missing = edgecore(machine, "get", "pod", "nope")
        assert (missing.returncode, missing.stderr) == (1, 'Error from server (NotFound): pods "nope" not found\n')
    refused = edgecore(machine, "delete", "pod", "other")
    assert (refused.returncode, "not connected to the cloud" in refused.stderr) == (1, True)
    assert "other" in machine.edge.pods()


@pytest.mark.gives_its_machine_back
def test_a_watch_and_a_deletion(machine: Machine, tmp_path: Path) -> None:
    """The cloud deletes, the node shows what becomes of it; the pod ends when it may."""
    script = "trap 'until [ -e /host/go ]; do sleep 0.05; done; exit 0' TERM; while true; do sleep 0.1; done"
    host = {"name": "host", "hostPath": {"path": str(tmp_path)}}
    made = pod("p", container(script, volumeMounts=[mount("host", "/host")]), volumes=(host,))
    made["spec"]["terminationGracePeriodSeconds"] = 300
    machine.cloud.apply(made)
    machine.cloud.pods.wait("p", is_ready)
    with started(machine, "get", "pods", "-w", "--no-headers") as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:3] == ["p", "1/1", "Running"]
        begun = edgecore(machine, "delete", "pod", "p", "--wait=false")
        assert (begun.returncode, begun.stdout) == (0, 'pod "p" deleted\n'), begun.stderr
        assert any("Terminating" in line for line in watch.stdout), "one of the next lines says it"
        (tmp_path / "go").touch()
        assert edgecore(machine, "wait", "--for=delete", "pod/p").returncode == 0


@contextmanager
def started(machine: Machine, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs on; ended by Ctrl-C, without a word."""
    process = subprocess.Popen(
        command(machine, *arguments), cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in said
    finally:
        process.kill()
        process.communicate()


@pytest.mark.gives_its_machine_back
def test_logs_of_several_containers(machine: Machine) -> None:
    two = pod("two", container(f"echo one; {RUN}", name="a"), container(f"echo two; {RUN}", name="b"))
    two["metadata"]["labels"] = {"app": "web"}
    machine.cloud.apply(two)
    made = machine.cloud.pods.wait("two", is_ready)
    wait_until(lambda: machine.edge.lines(made, "a") + machine.edge.lines(made, "b") == ["one", "two"], "both logs")
    default = edgecore(machine, "logs", "pod/two")
    assert (default.stdout, default.stderr) == ("one\n", 'Defaulted container "a" out of: a, b\n')
    assert edgecore(machine, "logs", "two", "b").stdout == "two\n"
    every = ("--all-containers", "--prefix")
    assert edgecore(machine, "logs", "-l", "app=web", *every).stdout == "[pod/two/a] one\n[pod/two/b] two\n"
    with started(machine, "logs", "-f", "two", *every) as follower:
        assert follower.stdout is not None
        assert {follower.stdout.readline() for _ in "ab"} == {"[pod/two/a] one\n", "[pod/two/b] two\n"}


@pytest.mark.gives_its_machine_back
def test_what_pods_and_the_node_use(machine: Machine) -> None:
    machine.cloud.apply(pod("p", container("while :; do :; done")))
    machine.cloud.pods.wait("p", is_ready)
    head, used = lines(machine, "top", "pods")
    assert (head, used[0]) == (["NAME", "CPU(cores)", "MEMORY(bytes)"], "p")
    assert int(used[1].removesuffix("m")) > 0 and used[2].endswith("Mi")
    node = lines(machine, "top", "node", "--no-headers")[0]
    assert (node[0], node[2][-1], node[4][-1]) == (NODE, "%", "%")


def test_input_that_ends(machine: Machine) -> None:
    """On containerd 1.6 too, over SPDY."""
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", is_ready)
    copied = edgecore(machine, "exec", "-i", "p", "--", "sh", "-c", "cat; echo end; exit 3", given="to copy\n")
    assert (copied.stdout, copied.stderr, copied.returncode) == ("to copy\nend\n", "", 3)


def tree(directory: Path) -> dict[str, bytes]:
    """The files below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.gives_its_machine_back
def test_files_from_and_to_a_container(machine: Machine, tmp_path: Path) -> None:
    volumes = ({"name": "c", "configMap": {"name": "c"}}, {"name": "d", "emptyDir": {}})
    app = container(volumeMounts=[mount("c", "/data/c"), mount("d", "/data/d")])
    machine.cloud.apply(config_map("c", key="value"), pod("p", app, volumes=volumes))
    machine.cloud.pods.wait("p", is_ready)
    done = edgecore(machine, "cp", "p:/data/c/key", str(tmp_path / "key"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "key").read_text() == "value", "what a link of a configmap's volume leads to"
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "large").write_bytes(os.urandom(3_000_000))
    (tmp_path / "tree" / "empty").touch()
    sent = edgecore(machine, "cp", str(tmp_path / "tree"), "default/p:/data/d")
    assert (sent.returncode, sent.stderr) == (0, "")
    assert edgecore(machine, "cp", "p:/data/d/tree", str(tmp_path / "back")).returncode == 0
    assert tree(tmp_path / "back") == tree(tmp_path / "tree")
    missing = edgecore(machine, "cp", "p:/data/nope", str(tmp_path / "nope"))
    assert (missing.returncode, "No such file" in missing.stderr, missing.stderr.count("\n")) == (9, True, 1)


@pytest.mark.gives_its_machine_back
def test_a_local_port_leads_to_a_pod(runtime: RuntimeUnderTest, machine: Machine) -> None:
    """On the process runtime the pod's port is one of this machine."""
    port = free_port()
    machine.cloud.apply(pod("p", web_server(runtime, port)))
    machine.cloud.pods.wait("p", is_ready)
    with started(machine, "port-forward", "p", f":{port}", ":9") as forwarder:
        assert forwarder.stdout is not None
        first = forwarder.stdout.readline()
        found = re.fullmatch(rf"Forwarding from 127\.0\.0\.1:(\d+) -> {port}\n", first)
        assert found, first
        for _ in "ab":
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/", timeout=PATIENCE) as answer:
                assert answer.status == 200
    assert forwarder.returncode == 0


def test_a_node_without_a_cloud_and_without_a_pod(stopped_machine: Machine) -> None:
    """It knows itself, before it was ever registered."""
    machine = stopped_machine
    machine.edge.start("127.0.0.1:1")
    wait_until(lambda: edgecore(machine, "get", "nodes").stdout.count("\n") == 2, "the node knows itself")
    assert lines(machine, "get", "nodes")[1][:2] == [NODE, "Ready"] or lines(machine, "get", "nodes")[1][0] == NODE
    none = edgecore(machine, "get", "pods")
    assert (none.stdout, none.stderr) == ("", "No resources found in default namespace.\n")
    assert json.loads(edgecore(machine, "get", "pods", "-A", "-o", "json").stdout)["items"] == []
    assert edgecore(machine, "get", "namespaces").stderr == "No resources found\n"
    refused = edgecore(machine, "get", "serviceaccounts")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
