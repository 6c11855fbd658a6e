"""The users of pods with `hostUsers: false`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import edged.pod_workers.user_namespaces
from edged.errors import ConfigError
from edged.pod_workers.user_namespaces import LENGTH, UserNamespaces
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from modules.apimachinery.types import Pod
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import a_pod
from tests.support.directories import memory_parent, short_directory
from tests.support.interleaving import Interleaving, explore


class _Runtime:
    has_users = True

    def status(self, *, verbose: bool = False) -> cri.StatusResponse:
        """What the default handler can do."""
        assert not verbose
        features = cri.RuntimeHandlerFeatures(user_namespaces=self.has_users)
        return cri.StatusResponse(runtime_handlers=[cri.RuntimeHandler(name="", features=features)])


class _Node:
    """Pods with directories below a root."""

    def __init__(self, root: Path) -> None:
        self.paths = PodPaths(root)
        self.runtime = _Runtime()

    def users(self, uid: str, **spec: Any) -> int | None:
        """The first user of the machine that a pod has, asked of a new edged; None for the machine's own."""
        pod = self.pod(uid, **spec)
        self.paths.pod(PodUid(uid)).mkdir(parents=True, exist_ok=True)
        found = UserNamespaces(self.paths, self.runtime).of(pod)
        if found is None:
            return None
        assert found.mode == cri.POD
        assert list(found.uids) == list(found.gids)
        assert (found.uids[0].container_id, found.uids[0].length) == (0, LENGTH)
        return found.uids[0].host_id

    @staticmethod
    def pod(uid: str, **spec: Any) -> Pod:
        """A pod of its own users."""
        return a_pod(meta={"uid": uid}, **{"host_users": False, **spec})


@pytest.fixture
def node(tmp_path: Path) -> _Node:
    """A node without pods."""
    return _Node(tmp_path)


def test_each_pod_has_its_own(node: _Node) -> None:
    """Never the machine's ids, the same at each call, and reused after the pod is gone."""
    assert [node.users(each) for each in ("a", "b", "c", "b")] == [LENGTH, 2 * LENGTH, 3 * LENGTH, 2 * LENGTH]
    (node.paths.pod(PodUid("b")) / "userns").unlink()
    assert node.users("d") == 2 * LENGTH


def test_what_is_no_directory_of_a_pod_is_no_hindrance(node: _Node) -> None:
    node.paths.pod(PodUid("any")).parent.mkdir(parents=True)
    node.paths.pod(PodUid(".nfs0001")).touch()
    assert node.users("a") == LENGTH


def test_a_node_has_so_many_users(node: _Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block has the number that is no user."""
    monkeypatch.setattr(edged.pod_workers.user_namespaces, "_MOST", 3)
    assert [node.users(uid) for uid in "ab"] == [LENGTH, 2 * LENGTH]
    with pytest.raises(ConfigError, match="all 2 ranges of users are in use"):
        node.users("c")


def test_other_pods_have_the_machines(node: _Node) -> None:
    """Nothing is written for them, nor the runtime asked."""
    assert node.users("a", host_users=None) is None
    assert node.users("a", host_users=True) is None
    assert list(node.paths.pod(PodUid("a")).iterdir()) == []


def test_the_file_is_a_kubelets(node: _Node) -> None:
    """A node that was a kubelet's keeps what its pods have."""
    node.users("a")
    mapping = [{"hostId": LENGTH, "containerId": 0, "length": LENGTH}]
    written = json.loads((node.paths.pod(PodUid("a")) / "userns").read_bytes())
    assert written == {"uidMappings": mapping, "gidMappings": mapping}


def test_a_runtime_without(node: _Node) -> None:
    """The pod waits with the reason, and has no users meanwhile; a pod that has some keeps them."""
    node.users("a")
    node.runtime.has_users = False
    with pytest.raises(ConfigError, match="hostUsers: false is not supported by the runtime"):
        node.users("b")
    assert node.users("a") == LENGTH
    node.runtime.has_users = True
    with pytest.raises(ConfigError, match="hostUsers"):
        node.users("b", runtime_class_name="other")


def test_a_damaged_file(node: _Node) -> None:
    """It is not overwritten: containers may run with what it said."""
    node.users("a")
    (node.paths.pod(PodUid("a")) / "userns").write_text("{")
    with pytest.raises(ConfigError, match="delete the pod"):
        node.users("a")
    with pytest.raises(ConfigError, match=r"pods/a/userns.*delete the pod"):
        node.users("b")  # nobody knows whose users it would get; as a kubelet
    shutil.rmtree(node.paths.pod(PodUid("a")))
    node.users("b")


def test_pods_that_start_together_have_users_of_their_own() -> None:
    """In whatever order their workers' threads run: one looks for free users while another takes them."""

    def scenario(threads: Interleaving) -> None:
        with short_directory("users-", memory_parent()) as root:
            node = _Node(root)
            users = UserNamespaces(node.paths, node.runtime)
            found: list[int] = []

            def start(uid: str) -> None:
                node.paths.pod(PodUid(uid)).mkdir(parents=True)
                namespace = users.of(node.pod(uid))
                assert namespace is not None
                found.append(namespace.uids[0].host_id)

            threads.run(lambda: start("first"), lambda: start("second"))
            assert len(set(found)) == 2

    explore(scenario, edged.pod_workers.user_namespaces, single=40)
