"""`edgecore leave`: of a cloud over real TLS with an administrator's kubeconfig, and without any cloud."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from modules.cli.errors import StatusError
from modules.cli.rest import MERGE_PATCH, RestClient
from modules.processes.cloudcore.config import TlsConfig
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.ownership import LOCK_FILE, lock_root_directory
from modules.processes.edgecore.uninstall import leave as module
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle
from tests.modules.processes.cloudcore.stubs import Stub
from tests.modules.processes.cloudcore.test_secure_port import Secure
from tests.support.control_client import Apply, Get
from tests.support.kubeconfigs import write_kubeconfig, write_token_file

pytestmark = pytest.mark.timeout(600)
_replace = msgspec.structs.replace


NODES = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")]
SILENT = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}


def pod_on(node: str, name: str, *, owned: bool) -> dict[str, Any]:
    """Return a pod on a node."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1-2", "controller": True}
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner] if owned else []}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "web:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Leaving(NamedTuple):
    """A node that does not run, its cloud, and an administrator's kubeconfig."""

    root: Path
    stub: Stub
    kubeconfig: Path
    authority: Path

    def do(self, *more: str) -> int:
        """Run `leave`."""
        return main(["leave", "--root", str(self.root), "--kubeconfig", str(self.kubeconfig), *more])

    def names(self, kind: str) -> list[str]:
        """Return the names of the objects in the cloud."""
        found = self.stub.client.run(Get(kind, namespace=None))
        return sorted(each.object["metadata"]["name"] for each in found if each.object is not None)


def make_node(root: Path) -> Path:
    """Make what the node n1 has left."""
    (root / "edged/pods/0f3e").mkdir(parents=True)
    (root / "edged" / LOCK_FILE).touch()
    (root / "theirs").touch()
    config = EdgeCoreConfig.below(root)
    edged = _replace(config.modules.edged, hostname_override="n1")
    (root / "edgecore.yaml").write_text(render(_replace(config, modules=_replace(config.modules, edged=edged))))
    return root


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[Leaving]:
    """Return the node, known to a cloud that runs and has not heard of it for long."""
    directory = tmp_path / "cloud"
    directory.mkdir()
    tokens = write_token_file(directory / "tokens.csv")
    tls = TlsConfig(directory=directory / "tls", https_port=0)
    with Stub(directory, tls=tls, secure_port=0, token_auth_file=tokens, controllers="none") as stub:
        pods = [pod_on("n1", "web", owned=True), pod_on("n2", "other", owned=True)]
        for item in stub.client.run(Apply([*NODES, *pods])):
            assert not item.error, item.error
        admin = RestClient(stub.config.control_socket)
        admin.request("PATCH", "/api/v1/nodes/n1/status", body=SILENT, content_type=MERGE_PATCH)
        secure = Secure(stub, directory)
        kubeconfig = write_kubeconfig(tmp_path / "config", secure.port, secure.files.authority)
        yield Leaving(make_node(tmp_path / "n"), stub, kubeconfig, secure.files.authority)


def test_the_node_is_drained_deleted_and_removed(leaving: Leaving, capsys: pytest.CaptureFixture[str]) -> None:
    """Other nodes, and files of others in its directory, stay."""
    assert leaving.do("--yes") == ExitCode.OK
    assert leaving.names("Node") == ["n2"]
    assert [path.name for path in leaving.root.iterdir()] == ["theirs"]
    said = capsys.readouterr()
    assert "evicting pod default/web" in said.out
    assert "default/other" not in said.out
    assert "deleted the Node n1" in said.err
    assert "kubectl delete node" not in said.err
    assert "cloudcore token --node n1 --replace" in said.err


def test_pods_that_would_be_lost_keep_it(leaving: Leaving, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is removed then; `--force` does it nevertheless."""
    for item in leaving.stub.client.run(Apply([pod_on("n1", "lonely", owned=False)])):
        assert not item.error, item.error
    assert leaving.do("--yes") == ExitCode.NOT_DONE
    assert "the node is not drained: n1" in capsys.readouterr().err
    assert leaving.names("Node") == ["n1", "n2"]
    assert (leaving.root / "edgecore.yaml").exists()
    assert leaving.do("--yes", "--force") == ExitCode.OK
    assert leaving.names("Node") == ["n2"]


def test_a_dry_run_changes_nothing(leaving: Leaving, capsys: pytest.CaptureFixture[str]) -> None:
    assert leaving.do("--dry-run") == ExitCode.OK
    said = capsys.readouterr().err
    assert "would drain the node n1" in said
    assert f"would remove {leaving.root / 'edgecore.yaml'}" in said
    assert leaving.names("Node") == ["n1", "n2"]
    assert leaving.names("Pod") == ["other", "web"]
    assert (leaving.root / "edgecore.yaml").exists()


def test_a_node_that_is_not_in_the_cloud(leaving: Leaving, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leave", "--root", str(leaving.root), "--dry-run"]) == ExitCode.OK
    for _ in range(2):
        assert leaving.do("--yes") == ExitCode.OK
        make_node(leaving.root)
    assert "there is no Node n1 in the cloud" in capsys.readouterr().err


def test_a_cloud_that_does_not_answer(leaving: Leaving, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was changed, and the error says how to leave without it."""
    write_kubeconfig(leaving.kubeconfig, 1, leaving.authority)
    assert leaving.do("--yes") == ExitCode.NOT_DONE
    assert "without --kubeconfig the node leaves without its cloud" in capsys.readouterr().err
    assert (leaving.root / "edgecore.yaml").exists()


def test_without_a_cloud_it_says_what_it_leaves_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_node(tmp_path / "n")
    assert main(["leave", "--root", str(root), "--yes"]) == ExitCode.OK
    said = capsys.readouterr().err
    for part in ("`kubectl delete node n1`", "`kubectl drain n1`", "`cloudcore revoke node n1`"):
        assert part in said
    assert [path.name for path in root.iterdir()] == ["theirs"]


@pytest.mark.parametrize(
    ("end", "said"), [("", "disabled edge.service"), ("echo no such unit >&2; exit 1", "edge.service: no such unit")]
)
def test_systemd_starts_it_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: str, said: str
) -> None:
    """The unit that runs the node is disabled before anything is removed, and a node without one is stopped."""
    programs, asked, stopped = tmp_path / "programs", tmp_path / "asked", list[Path]()
    programs.mkdir()
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {asked}\n{end}\n')
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    root = make_node(tmp_path / "n")
    handle = NodeHandle(str(root / "edged" / LOCK_FILE), "", [], [], "edge.service", user=True)
    monkeypatch.setattr(module, "running_node", lambda *_: handle)
    monkeypatch.setattr(module, "stop", stopped.append)
    assert main(["leave", "--root", str(root), "--yes"]) == ExitCode.OK
    assert asked.read_text() == "--user disable --now edge.service\n"
    assert stopped == [root / "edged"]
    assert said in capsys.readouterr().err


def test_it_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_node(tmp_path / "n")
    with ExitStack() as stack:
        lock_root_directory(root / "edged", stack)
        assert main(["leave", "--root", str(root)]) == ExitCode.NOT_DONE
    assert "--yes confirms it" in capsys.readouterr().err
    assert (root / "edgecore.yaml").exists()


@pytest.mark.parametrize(("code", "is_left"), [(404, False), (409, True), (403, True)])
def test_only_the_node_that_was_drained_is_deleted(*, code: int, is_left: bool) -> None:
    """Another machine may have taken the name meanwhile: its Node has another uid."""
    bodies = list[object]()

    def request(_method: str, _path: str, body: object) -> None:
        bodies.append(body)
        raise StatusError(code, "NotFound" if code == 404 else "", "no")

    cloud = module._Cloud(cast("Any", SimpleNamespace(request=request)), "n1")
    with pytest.raises(BackupError, match="cannot delete the Node") if is_left else nullcontext():
        cloud.delete("u1")
    assert bodies == [{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u1"}}]


def test_the_way_to_the_cloud_is_closed_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[str]()
    transport = SimpleNamespace(close=lambda: closed.append("transport"))
    monkeypatch.setattr(module, "transport_of", lambda *_: (None, transport))
    chosen: Any = SimpleNamespace(kubeconfig=Path("config"), context="")
    with pytest.raises(MemoryError), module._cloud(chosen, "n1"):
        raise MemoryError
    assert closed == ["transport"]
