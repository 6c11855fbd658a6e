"""One spoilt file never stops a node: whatever is in the place of what edgecore keeps, it starts."""

import os
import shutil
import signal
import urllib.request
from pathlib import Path

import msgspec
import pytest

from beehive.files.removal import remove_tree
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.damaged import damaged_paths
from tests.end_to_end.processes import Process, wait_until
from tests.support.own_node import alone
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.spoiling import SPOILT, Spoil


def _config(root: Path, port: int) -> EdgeCoreConfig:
    config = alone(EdgeCoreConfig.below(root))
    edged = config.modules.edged
    kubelet = msgspec.structs.replace(
        edged.tailored_kubelet_config, read_only_port=port, static_pod_path=str(root / "manifests")
    )
    edged = msgspec.structs.replace(edged, tailored_kubelet_config=kubelet, allow_unisolated_root=True)
    return msgspec.structs.replace(config, modules=msgspec.structs.replace(config.modules, edged=edged))


def _run(config: EdgeCoreConfig, directory: Path, number: int) -> str:
    """Start the node, ask it for its metrics, and end it; what they say."""
    file = directory / f"{number}.yaml"
    file.write_text(render(config))
    process = Process("modules.processes.edgecore", ["run", "--config", str(file)], directory / f"{number}.log")
    try:
        wait_until(lambda: "is running" in process.text() or not process.runs, "edgecore is running")
        assert process.runs, process.tail()
        port = config.modules.edged.tailored_kubelet_config.read_only_port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            metrics: str = answer.read().decode()
        process.signal(signal.SIGTERM)
        assert process.wait() == ExitCode.OK, process.tail()
        assert "Traceback" not in process.text(), process.text()
        return metrics
    finally:
        if process.runs:
            process.kill()


def _more(root: Path) -> None:
    """What a node that has been used has besides."""
    uid = "0f1a0000-0000-0000-0000-000000000001"
    for name in (
        "edged/chains",
        "edged/device-plugins/kubelet_internal_checkpoint",
        "edged/embedded/images.json",
        f"edged/embedded/sandboxes/{'a' * 64}/request.pb",
        f"edged/embedded/containers/{'b' * 64}/record.json",
        f"edged/pods/{uid}/volumes/kubernetes.io~csi/v/vol_data.json",
        f"edged/pods/{uid}/etc-hosts",
        "edged/pods/not a pod",
        "edged/plugins_registry/plugin.sock",
        "edged/traces/old.trace",
        "manifests/pod.yaml",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[EdgeCoreConfig, Path]:
    """A node that has run, and a copy of its files."""
    directory = tmp_path_factory.mktemp("used")
    config = _config(directory / "node", free_port())
    assert "edgecore_damaged_entries 0.0" in _run(config, directory, 0)
    _more(directory / "node")
    return config, shutil.copytree(directory / "node", directory / "kept", symlinks=True)


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_every_file_is_spoilt_and_the_node_starts(
    used: tuple[EdgeCoreConfig, Path], tmp_path: Path, spoil: Spoil
) -> None:
    """All files together; the metrics count the files set aside, and the doctor names them."""
    config, kept = used
    node = kept.with_name("node")
    remove_tree(node)
    shutil.copytree(kept, node, symlinks=True)
    for directory, _, names in os.walk(node):
        for name in names:
            spoil(Path(directory, name))
    metrics = _run(config, tmp_path, 1)
    found = damaged_paths(config)
    assert any("a" * 64 in path for path in found)
    assert f"edgecore_damaged_entries {float(len(found))}" in metrics


_DIRECTORIES = (
    "device-plugins",
    "plugins_registry",
    "pod-resources",
    "pods",
    "traces",
    "embedded/containers",
    "plugins",
)


def _file(path: Path) -> None:
    path.write_text("no directory")


def _dangling(path: Path) -> None:
    path.symlink_to("/nowhere/at all")


@pytest.mark.parametrize("put", [_file, os.mkfifo, _dangling], ids=["a file", "a pipe", "a dangling link"])
def test_a_file_in_a_directorys_place_gives_way(tmp_path: Path, put: Spoil) -> None:
    config = _config(tmp_path / "node", free_port())
    root = config.modules.edged.root_directory
    for name in _DIRECTORIES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        put(root / name)
    _run(config, tmp_path, 0)
    assert len(damaged_paths(config)) == len(_DIRECTORIES)
    assert all((root / name).is_dir() for name in ("device-plugins", "plugins_registry", "embedded/containers"))
