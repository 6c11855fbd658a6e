"""Lists of the sandboxes and containers of one pod, which every job of the pod asks for."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from modules.runtimes.engine.model import POD_UID, RuntimeContainer, Sandbox
from modules.runtimes.engine.records import BootId, ContainerId, ContainerRecord, SandboxId, SandboxRecord
from modules.runtimes.engine.registry import Registry
from protos.cri.v1 import api_pb2 as cri


def _sandbox(name: str, labels: dict[str, str]) -> Sandbox:
    metadata = cri.PodSandboxMetadata(name=name, namespace="default", uid=name)
    request = cri.RunPodSandboxRequest(config=cri.PodSandboxConfig(metadata=metadata, labels=labels))
    return Sandbox(SandboxId(name), Path(name), request, SandboxRecord(1, "", BootId("boot")))


def _container(name: str, sandbox: str, labels: dict[str, str]) -> RuntimeContainer:
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name), labels=labels)
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)
    return RuntimeContainer(ContainerId(name), Path(name), request, ContainerRecord(1))


@pytest.fixture(name="registry")
def _registry() -> Registry[RuntimeContainer]:
    """A pod with two sandboxes, one without labels, and one whose containers have the label of another pod."""
    registry: Registry[RuntimeContainer] = Registry()
    for name, labels in (("s1", {POD_UID: "u1"}), ("s2", {POD_UID: "u1"}), ("s3", {}), ("s4", {POD_UID: ""})):
        registry.add_sandbox(_sandbox(name, labels))
    for name, sandbox, labels in (("c1", "s1", {POD_UID: "u1"}), ("c2", "s2", {POD_UID: "s1"}), ("c3", "s3", {})):
        registry.add_container(_container(name, sandbox, labels))
    return registry


def test_the_objects_of_a_pod_are_listed(registry: Registry[RuntimeContainer]) -> None:
    """By the label; an empty one is no missing one."""
    assert [each.id for each in registry.sandboxes()] == ["s1", "s2", "s3", "s4"]
    assert [each.id for each in registry.sandboxes("u1")] == ["s1", "s2"]
    assert [each.id for each in registry.sandboxes("")] == ["s4"]
    assert [each.id for each in registry.containers(pod="u1")] == ["c1"]
    assert not registry.sandboxes("u2")
    assert not registry.containers(pod="u2")


def test_a_label_makes_no_container_of_a_sandbox(registry: Registry[RuntimeContainer]) -> None:
    """A client chooses the labels, and may choose the id of a sandbox."""
    assert [each.id for each in registry.containers(SandboxId("s1"))] == ["c1"]
    assert [each.id for each in registry.containers(SandboxId("s2"))] == ["c2"]


def test_what_is_removed_is_in_no_list(registry: Registry[RuntimeContainer]) -> None:
    """Its names, too: a later one may have them."""
    registry.remove_sandbox(SandboxId("s2"))
    registry.remove_container(ContainerId("c1"))
    assert [each.id for each in registry.sandboxes("u1")] == ["s1"]
    assert registry.containers(SandboxId("s1")) == []
    registry.add_container(_container("c4", "s1", {POD_UID: "u1"}))
    assert [each.id for each in registry.containers(SandboxId("s1"), pod="u1")] == ["c4"]


def test_a_listing_sees_no_change_half_made() -> None:
    registry = Registry[Any]()
    registry._lock = lock = MagicMock()
    registry.sandboxes()
    registry.containers()
    assert lock.__enter__.call_count == 2
