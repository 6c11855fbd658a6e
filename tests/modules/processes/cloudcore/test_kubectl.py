"""The real kubectl against the Kubernetes API of cloudcore, which a test serves on a loopback port."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from modules.apimachinery.limits import REQUEST_BYTES
from modules.processes.cloudcore.control import Control
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping

ATOMIC = Path(__file__).parents[2] / "cloud/apiserver/field_manager/atomic.yaml"
WORKLOADS = Path(__file__).parents[4] / "examples/workloads.yaml"
_KUBECTL = shutil.which("kubectl")

pytestmark = [
    pytest.mark.skipif(_KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.timeout(600),  # many processes that take seconds each on a busy machine
]

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: n1
  containers: [{name: main, image: "busybox:1.35"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1"}
"""


class Kubectl:
    """kubectl with an empty home."""

    def __init__(self, port: int, home: Path) -> None:
        self._command = [str(_KUBECTL), "--server", f"http://127.0.0.1:{port}"]
        self.environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self.manifest = home / "manifest.yaml"
        self.manifest.write_text(MANIFEST)

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """What a command comes to."""
        return subprocess.run(
            [*self._command, *arguments], input=text, env=self.environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip

    def __call__(self, *arguments: str, text: str = "") -> str:
        """What a command prints, which must succeed."""
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def begin(self, *arguments: str, output: Path) -> subprocess.Popen[bytes]:
        """Starts a command that goes on."""
        with output.open("wb") as stream:
            return subprocess.Popen([*self._command, *arguments], stdout=stream, env=self.environment)


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    with Stub(tmp_path) as stub:
        running = stub.core.hive.slot(Control.name).running
        assert running is not None
        control = running.ref._actor_weakref()
        assert isinstance(control, Control)
        clock = stub.core.hive.clock
        server = HttpServer(listen_tcp("127.0.0.1", 0), control.service(), clock, max_body=REQUEST_BYTES)
        with stopping(server):
            server.start()
            yield Kubectl(server.port, tmp_path)


def test_it_applies_shows_changes_and_deletes(kubectl: Kubectl) -> None:
    file = str(kubectl.manifest)
    assert kubectl("apply", "-f", file).splitlines() == ["pod/web created", "configmap/settings created"]
    assert kubectl("apply", "-f", file).splitlines() == ["pod/web unchanged", "configmap/settings unchanged"]
    rows = [line.split() for line in kubectl("get", "po,cm", "--no-headers").splitlines() if line]
    assert [row[:2] for row in rows] == [["pod/web", "0/1"], ["configmap/settings", "1"]]
    kubectl("label", "pod", "web", "colour=green")
    assert kubectl("get", "pods", "-l", "colour in (green, red)", "-o", "name") == "pod/web\n"
    assert kubectl("get", "pods", "--field-selector", "spec.nodeName=n2", "-o", "name") == ""
    kubectl("patch", "cm", "settings", "-p", '{"data":{"b":"2"}}')
    kubectl("patch", "cm", "settings", "--type=json", "-p", '[{"op":"remove","path":"/data/a"}]')
    assert json.loads(kubectl("get", "cm", "settings", "-o", "jsonpath={.data}")) == {"b": "2"}
    kubectl("wait", "cm/settings", "--for=jsonpath={.data.b}=2", "--timeout=60s")
    assert "Labels:           app=web" in kubectl("describe", "pod", "web")
    assert "deleted" in kubectl("delete", "cm", "settings", "--timeout=60s")
    missing = kubectl.run("get", "cm", "settings")
    assert missing.stderr == 'Error from server (NotFound): configmaps "settings" not found\n'


def versions(kubectl: Kubectl, *files: str) -> list[str]:
    """Return the resourceVersions of the objects in manifests, but not of CronJobs: each minute has a status."""
    shown = '{range .items[*]}{.kind}={.metadata.resourceVersion}{"\\n"}{end}'
    lines = kubectl("get", *files, "-o", f"jsonpath={shown}").splitlines()
    return [line for line in lines if not line.startswith("CronJob=")]


def test_nothing_is_written_again_by_both_applies_after_each_other(kubectl: Kubectl) -> None:
    """Some leave out what has a default, in lists that are merged as a whole: `kubectl apply` itself calls them
    configured each time, and they conflict with a server-side apply, as in Kubernetes.
    """
    files = ("-f", str(ATOMIC), "-f", str(WORKLOADS))
    on_server = ("--server-side", "--force-conflicts")
    kubectl("apply", *files)
    kubectl("apply", *on_server, *files)
    before = versions(kubectl, *files)
    for options in ((), on_server, on_server, ()):
        kubectl("apply", *options, *files)
        assert versions(kubectl, *files) == before, options


def test_its_own_apply_removes_what_a_server_side_apply_has_added(kubectl: Kubectl) -> None:
    def apply(data: str, *options: str) -> None:
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {data}\n"
        kubectl("apply", *options, "-f", "-", text=text)

    apply('{a: "1", b: "2"}')
    apply('{a: "1", z: "9"}', "--server-side")
    apply('{a: "1"}')
    assert json.loads(kubectl("get", "cm", "c", "-o", "jsonpath={.data}")) == {"a": "1"}


def test_it_creates_without_manifests(kubectl: Kubectl) -> None:
    """In protobuf: what is created, a token, reviews of rights, and an ephemeral container."""
    assert kubectl("create", "configmap", "two", "--from-literal=a=b") == "configmap/two created\n"
    assert json.loads(kubectl("get", "cm", "two", "-o", "jsonpath={.data}")) == {"a": "b"}
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert json.loads(kubectl("get", "secret", "s", "-o", "jsonpath={.data}")) == {"a": "Yg=="}
    for words in (("namespace", "blue"), ("serviceaccount", "robot"), ("service", "clusterip", "web", "--tcp=80")):
        assert "created" in kubectl("create", *words)
    assert kubectl("create", "token", "robot").count(".") == 2
    assert kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    assert "system:masters" in kubectl("auth", "whoami")
    kubectl("apply", "-f", str(kubectl.manifest))
    kubectl("debug", "web", "--image=busybox", "-c", "look", "--attach=false")
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.spec.ephemeralContainers[0].name}") == "look"


def test_server_side_apply_removes_fields_that_the_manifest_no_longer_has(kubectl: Kubectl) -> None:
    def applied(data: str) -> str:
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {data}\n"
        kubectl("apply", "--server-side", "-f", "-", text=text)
        return kubectl("get", "cm", "c", "-o", "jsonpath={.data}")

    assert json.loads(applied("{a: '1', b: '2'}")) == {"a": "1", "b": "2"}
    kubectl("patch", "cm", "c", "-p", '{"data":{"other":"x"}}')
    assert json.loads(applied("{b: '3'}")) == {"b": "3", "other": "x"}
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\ndata: {key: '1', gone: '1'}\n"
    kubectl("apply", "-f", "-", text=text)
    changed = text.replace("key: '1', gone: '1'", "key: '2'")
    refused = kubectl.run("apply", "--server-side", "--field-manager=argo", "-f", "-", text=changed)
    assert 'conflict with "kubectl-client-side-apply" using v1' in refused.stderr
    assert ".data.key" in refused.stderr
    kubectl("apply", "--server-side", "-f", "-", text=changed)
    assert json.loads(kubectl("get", "cm", "d", "-o", "jsonpath={.data}")) == {"key": "2"}


def test_the_cascade_of_a_deletion_equals_kubectls(kubectl: Kubectl) -> None:
    """Dependents stay as orphans, or go before their owner, which kubectl waits for."""
    kubectl("create", "configmap", "owner")
    uid = kubectl("get", "cm", "owner", "-o", "jsonpath={.metadata.uid}")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    for name in ("one", "two"):
        kubectl("create", "configmap", name)
        patch = json.dumps({"metadata": {"ownerReferences": [reference]}})
        kubectl("patch", "cm", name, "--type=merge", "-p", patch)
    kubectl("delete", "cm", "one", "--cascade=foreground")
    kubectl("delete", "cm", "owner", "--cascade=orphan")
    assert kubectl("get", "cm", "two", "-o", "jsonpath={.metadata.ownerReferences}") == ""
    kubectl("create", "namespace", "blue")
    kubectl("create", "configmap", "in-it", "-n", "blue")
    kubectl("delete", "namespace", "blue")
    assert kubectl("get", "cm", "-n", "blue", "-o", "name") == ""


def test_apply_prunes_objects_that_the_manifest_no_longer_has(kubectl: Kubectl) -> None:
    """By an apply set, or by labels and the named kinds, or kubectl's own list of kinds, which are all here."""
    maps = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}, labels: {{a: b}}}}\n"

    def pruned(names: str, *words: str) -> str:
        """Apply configmaps of these names."""
        return kubectl("apply", "-n", "default", "-f", "-", "--prune", *words, text="".join(map(maps.format, names)))

    kubectl.environment["KUBECTL_APPLYSET"] = "true"
    pruned("cd", "--applyset=mine")
    assert pruned("c", "--applyset=mine").splitlines() == ["configmap/c unchanged", "configmap/d pruned"]
    del kubectl.environment["KUBECTL_APPLYSET"]
    pruned("ce", *(by_label := ("-l", "a=b", "--prune-allowlist=core/v1/ConfigMap")))
    assert pruned("c", *by_label).splitlines() == ["configmap/c unchanged", "configmap/e pruned"]
    assert pruned("cf", *by_label).splitlines() == ["configmap/c unchanged", "configmap/f created"]
    assert pruned("c", "-l", "a=b").splitlines() == ["configmap/c unchanged", "configmap/f pruned"]


def test_a_misspelt_field_is_an_error_or_a_warning(kubectl: Kubectl) -> None:
    wrong = MANIFEST.replace("image:", "comand: [x], image:")
    refused = kubectl.run("apply", "-f", "-", text=wrong)
    assert refused.returncode == 1
    assert 'strict decoding error: unknown field "spec.containers[0].comand"' in refused.stderr
    warned = kubectl.run("apply", "--validate=warn", "-f", "-", text=wrong)
    assert warned.returncode == 0
    assert 'Warning: unknown field "spec.containers[0].comand"\n' in warned.stderr


def test_a_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    created = kubectl("apply", "--dry-run=server", "-f", str(kubectl.manifest)).splitlines()
    assert created == ["pod/web created (server dry run)", "configmap/settings created (server dry run)"]
    assert kubectl("get", "pods,cm", "-o", "name") == ""
    differs = kubectl.run("diff", "-f", str(kubectl.manifest))
    assert differs.returncode == 1
    assert "+kind: ConfigMap" in differs.stdout


_CONTROLLER = """\
apiVersion: v1
kind: ReplicationController
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {app: web}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "busybox:1.35", ports: [{containerPort: 6379}]}]}
"""


def test_it_works_with_a_replication_controller(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", text=_CONTROLLER) == "replicationcontroller/web created\n"
    wait_until(lambda: len(kubectl("get", "pods", "-l", "app=web", "-o", "name").splitlines()) == 2, "two pods")
    described = [line.split(":", 1) for line in kubectl("describe", "rc", "web").splitlines() if ":" in line]
    told = {name.strip(): value.strip() for name, value in described}
    assert (told["Name"], told["Replicas"], told["Image"]) == ("web", "2 current / 2 desired", "busybox:1.35")
    first, second = kubectl("get", "pods", "-l", "app=web", "-o", "name").splitlines()
    kubectl("patch", first, "-p", '{"metadata":{"annotations":{"x":"y"}}}')
    assert kubectl("get", first, "-o", "jsonpath={.metadata.annotations.x}") == "y"
    assert kubectl("get", second, "-o", "jsonpath={.metadata.annotations.x}") == ""
    for name, source in (("one", "rc/web"), ("two", "service/one")):
        assert "exposed" in kubectl("expose", *source.split("/"), f"--name={name}", "--port=1234", "--target-port=6379")
        assert kubectl("get", "service", name, "-o", "jsonpath={.spec.ports[0]['port','targetPort']}") == "1234 6379"
    kubectl("scale", "rc", "web", "--replicas=1")
    wait_until(lambda: len(kubectl("get", "pods", "-l", "app=web", "-o", "name").splitlines()) == 1, "one pod")
    kubectl("delete", "rc", "web", "--cascade=foreground", "--timeout=60s")
    assert kubectl("get", "pods", "-l", "app=web", "-o", "name") == ""


def test_it_tells_versions_and_where_the_control_plane_is_and_runs_a_pod(kubectl: Kubectl) -> None:
    assert "v1" in kubectl("api-versions").splitlines()
    versions = json.loads(kubectl("version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"].startswith("v1.")
    assert {"major", "minor", "buildDate", "goVersion", "platform"} <= versions["serverVersion"].keys()
    assert "control plane" in kubectl("cluster-info")
    kubectl("run", "once", "--image=busybox:1.35", "--restart=Never")
    told = kubectl("get", "pod", "once", "-o", "jsonpath={.spec.restartPolicy} {.spec.containers[0].image}")
    assert told == "Never busybox:1.35"
