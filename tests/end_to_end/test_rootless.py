"""A node of an ordinary user with isolated containers: it begins, is killed, goes on, and leaves nothing."""

from __future__ import annotations

import http.client
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import Process, mounts_below, processes_of, run_program, wait_until
from tests.modules.runtimes.oci.rootless.node import reason_missing
from tests.support.directories import short_directory
from tests.support.images import busybox_image, docker_archive
from tests.support.own_node import write_node
from tests.support.ports import free_port

_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: docker.io/library/busybox:latest
    imagePullPolicy: Never
    terminationMessagePath: /last
    command: [sh, -c, "mkdir /www; echo hello > /www/index.html; stat -Lc '%n %u %g %a' /v /m /s /d/name /etc/hosts
      /last > /www/owners; touch /v/a; chown -R 33:33 /v; chmod 700 /v/a /v; exec httpd -f -p 80 -h /www"]
    ports: [{{containerPort: 80, hostPort: {port}}}]
    readinessProbe: {{httpGet: {{port: 80, path: /index.html}}, periodSeconds: 1}}
    volumeMounts: [{{name: v, mountPath: /v}}, {{name: m, mountPath: /m}}, {{name: v, mountPath: /s, subPath: a/b}},
      {{name: d, mountPath: /d}}]
    resources: {{limits: {{memory: 20Mi, cpu: 100m}}}}
  securityContext: {{fsGroup: 44}}
  volumes:
  - {{name: v, emptyDir: {{}}}}
  - {{name: m, emptyDir: {{medium: Memory}}}}
  - {{name: d, downwardAPI: {{defaultMode: 0440, items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}}}
"""
_OWNERS = b"""\
/v 0 44 2777
/m 0 44 3777
/s 0 44 2777
/d/name 0 44 440
/etc/hosts 0 0 644
/last 0 0 666
"""
"""Users, groups and modes of a pod's files as the pod sees them."""


def _served(port: int, name: str = "index.html") -> bytes:
    """What the pod answers at its port of the machine; empty without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with suppress(OSError, http.client.HTTPException):
        connection.request("GET", f"/{name}")
        return connection.getresponse().read()
    return b""


def test_a_node_of_an_ordinary_user() -> None:
    """A pod with a probe, a port of the machine, volumes and files of a sub-id; edgecore is killed meanwhile."""
    if reason := reason_missing():
        pytest.skip(reason)
    with short_directory("rn-", mode=0o755) as directory:
        root, port = directory / "n", free_port()
        write_node(root)
        file = root / "edgecore.yaml"
        file.write_text(file.read_text().replace("embedded://", "embedded://oci"))
        archives = root / "edged" / "image-archives"
        archives.mkdir(parents=True)
        shutil.move(docker_archive(busybox_image(), directory), archives / "busybox.tar")
        (root / "manifests").mkdir()
        (root / "manifests/p.yaml").write_text(_POD.format(port=port))
        arguments = ["run", "--root", str(root)]
        process = Process("modules.processes.edgecore", arguments, directory / "log", preloads=())
        try:
            wait_until(lambda: _is_ready(root), "the probe reaches the pod")
            assert _served(port) == b"hello\n"
            assert _served(port, "owners") == _OWNERS
            process.kill()
            assert _served(port) == b"hello\n", "the pod goes on"
            process = Process("modules.processes.edgecore", arguments, directory / "log2", preloads=())
            wait_until(lambda: _is_ready(root), "the next edgecore finds the pod")
            assert "RESTARTS" in _pods(root)
            assert _pods(root).split("Running")[1].split()[0] == "0"
            done = run_program("edgecore", "uninstall", "--root", str(root), "--yes", "--stop")
            assert done.returncode == ExitCode.OK, done.stderr
            assert "end pod default/web-" in done.stderr
            assert process.wait() == ExitCode.OK
        finally:
            process.kill()
        assert {path.relative_to(root) for path in root.rglob("*")} == {Path("manifests"), Path("manifests/p.yaml")}
        assert mounts_below(root) == []
        wait_until(lambda: processes_of(root) == [], "no process is left")
        assert _served(port) == b""


def _pods(root: Path) -> str:
    return run_program("edgecore", "get", "pods", "--root", str(root)).stdout


def _is_ready(root: Path) -> bool:
    return "1/1" in _pods(root)
