"""`cloudcore VERB` prints the same as the real kubectl at the same cloud; skipped without kubectl."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from beehive.clock import RealClock
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from modules.processes.cloudcore.control import Control
from tests.modules.kubectl.cloud import Cloud, Done, config_map, event, node, pod
from tests.support.stopping import stopping

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine"),
    pytest.mark.slow,
    pytest.mark.timeout(300),  # a process of kubectl for each command
]

_AGE: Final = re.compile(r"\b(?:\d+[smhdy])+\b|<invalid>")
STATUS: Final[dict[str, Any]] = {
    "phase": "Running",
    "podIP": "192.0.2.7",
    "message": "a: text that has to be quoted, is longer than a line of eighty characters, and ends with 1e3",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {
            "name": "main", "ready": True, "restartCount": 2, "image": "b", "imageID": "", "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-20T01:00:00Z"}},
        }
    ],
}  # fmt: skip
DATA: Final = {"yes": "no", "lines": "one\ntwo\n", "number": "0x1f", "float": "1e3", "dash": "-", "empty": "", "y": "y"}

ALIKE: Final = """\
get pods
get pods -o wide
get pods -A
get pods --show-labels
get pods -L app -L tier
get pods,cm
get pod/web cm/colours
get pod web -o yaml
get pod web -o json
get cm -o json
get cm -o yaml
get nodes
get nodes -o wide
get secrets
get ns
get sa
get leases
get events --sort-by=.metadata.name
get events -o wide --sort-by=.metadata.name
events
events -A
events --types=Warning
get pods -o name
get pods --no-headers
get pods -l app=web
get pods -l nothing=x
get pods -n nothing
get pod nothing
get pod web nothing
get pods web -l a=b
get pod web -A
get pod/web/x
get pods --watch=false
get -f /nothing
get pods -o custom-columns=N:.metadata.name
get pods -o jsonpath={.items[*].metadata.name}
get pods --sort-by=.metadata.name
get pods --field-selector=status.phase=Running
api-resources
api-resources -o wide
api-resources --namespaced=false
api-resources -o name
api-resources --api-group=storage.k8s.io
api-resources --verbs=list,watch --sort-by=kind
api-versions
label pod web app=db
label pod web app=web
label pod web none-
label pod nothing a=1
label pod web new=1 --dry-run=server
annotate pod web note=2
annotate pod web --list
patch cm colours -p {"data":{"empty":""}}
patch cm nothing -p {}
cordon nothing
uncordon n1
taint node n1 a-
taint node n1 key=other:NoSchedule
wait --for=condition=Ready pod/web
wait --for=condition=Ready pod/nothing --timeout=1s
wait --for=condition=Ready pod/db --timeout=1s
wait --for=delete pod/nothing
wait --for=jsonpath={.status.phase}=Running pod/web
wait --for=condition=Ready pods -l x=y
delete cm colours --dry-run=client
delete cm colours --dry-run=server -o name
delete cm nothing
delete cm nothing --ignore-not-found
delete cm -l a=b
delete cm colours --now --grace-period=3
""".splitlines()


@contextmanager
def on_a_port(cloud: Cloud) -> Iterator[int]:
    """The service of the control socket, on a port."""
    running = cloud.stub.core.hive.slot(Control.name).running
    assert running is not None
    control = running.ref._actor_weakref()
    assert isinstance(control, Control)
    with stopping(HttpServer(listen_tcp("127.0.0.1", 0), control.service(), RealClock(), max_body=1 << 20)) as server:
        server.start()
        yield server.port


def compared(done: Done) -> tuple[int, list[list[str]]]:
    """Return the status, and the words of each line, ages made alike."""
    return done.status, [_AGE.sub("AGE", line).split() for line in f"{done.out}|\n{done.err}".splitlines()]


def test_the_same_words_get_the_same_answers(cloud: Cloud, tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "YQ=="}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
             "spec": {"holderIdentity": "x"}}  # fmt: skip
    tainted = node() | {"spec": {"taints": [{"key": "key", "value": "value", "effect": "NoSchedule"}]}}
    web = pod(status=STATUS, labels={"app": "web", "tier": "front"})
    web["metadata"]["annotations"] = {"note": "1"}
    events = (event("b", "2026-11-20T01:00:00Z", count=3), event("a", "2026-11-20T02:00:00Z", kind="Warning"))
    cloud.make(web, pod("db"), pod("far", "other"), config_map(**DATA), tainted, secret, account, lease, *events)
    different = []
    with on_a_port(cloud) as port:
        for line in ALIKE:
            theirs, ours = _kubectl(line, port, tmp_path), cloud.run(*line.split())
            if compared(ours) != compared(theirs):
                different.append((line, theirs, ours))
    assert different == []


def _kubectl(line: str, port: int, home: Path) -> Done:
    arguments = ["kubectl", "--server", f"http://127.0.0.1:{port}", "--cache-dir", str(home / "cache"), *line.split()]
    environment = {**os.environ, "HOME": str(home), "KUBECONFIG": str(home / "none")}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    return Done(done.returncode, done.stdout, done.stderr)
