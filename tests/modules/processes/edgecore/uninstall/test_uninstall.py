"""What `edgecore uninstall` removes of a node that does not run, and what it leaves."""

import errno
import io
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.files.removal import remove_tree
from edged.errors import EdgedError
from edged.pods.labels import POD_NAME, POD_NAMESPACE, POD_UID, TERMINATION_GRACE
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.location import NodeLocation
from modules.processes.edgecore.ownership import LOCK_FILE, lock_root_directory
from modules.processes.edgecore.uninstall import commands, lost, pods
from modules.processes.edgecore.uninstall.files import Leftovers, leftovers, pod_uids
from tests.support.patience import PATIENCE

UID = "0f3e"
OTHER_UID = "77aa"
DIRECTORIES = (
    f"edged/pods/{UID}", "edged/embedded/containers", "edged/embedded/sandboxes",
    "edged/docker/containers", "edged/plugins/driver", f"logs/pods/default_web_{UID}",
    "certs", "manifests", "damaged", "edged/mosquitto/data",
)  # fmt: skip
FILES = (
    f"edged/{LOCK_FILE}", "edged/edged.sock", "edged/chains", "edged/embedded/lock", "edged/docker/theirs",
    "edged/mosquitto/data/mosquitto.db", "edged/plugins/driver/csi.sock", "edgecore.db", "edgecore.db-wal",
    "dmi.sock",
    "edgecore.db.before-restore-20261120T000000.000Z", "edgecore.db-wal.before-restore-20261120T000000.000Z",
    "edgecore-outbox.db", "certs/server.key", "certs/server.key.joining", "certs/server.key.joining.new",
    "certs/server.crt.new", "mine",
    "edgecore.yaml.before-join",
    "manifests/p.yaml", "manifests/.p.yaml.before-restore-1Z",
)  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The directory of a node that has run, with files of others in it."""
    root = tmp_path / "n"
    for name in DIRECTORIES:
        (root / name).mkdir(parents=True)
    for name in FILES:
        (root / name).touch()
    (root / "edgecore.yaml").write_text(render(EdgeCoreConfig.below(root)))
    return root


def files(root: Path) -> set[str]:
    """Return the files below a directory."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def found(root: Path) -> tuple[EdgeCoreConfig, NodeLocation]:
    """Return an embedded node whose file is in its directory."""
    return EdgeCoreConfig.below(root), NodeLocation(root / "edgecore.yaml", root)


def test_removed_files(node: Path) -> None:
    """What edgecore has made, by name; what others have put there stays, and the directories that hold it."""
    left = leftovers(*found(node)).remove_all()
    assert files(node) == {"mine", "manifests/p.yaml", "edged/plugins/driver/csi.sock", "edged/docker/theirs"}
    assert left == [node / "edged/plugins", node / "edged", node / "manifests", node]


def test_a_directory_without_others_goes(node: Path) -> None:
    """Entirely."""
    for name in ("mine", "manifests/p.yaml", "edged/plugins/driver/csi.sock"):
        (node / name).unlink()
    (node / "edged/plugins/driver").rmdir()
    shutil.rmtree(node / "edged/docker")
    assert leftovers(*found(node)).remove_all() == []
    assert not node.exists()


def test_a_directory_where_no_edgecore_has_run(node: Path) -> None:
    """A kubelet's has other files of the same names."""
    (node / "edged" / LOCK_FILE).unlink()
    paths = leftovers(*found(node)).remove
    assert not [path for path in paths if path.is_relative_to(node / "edged")]


def test_a_file_that_a_user_has_named_is_the_users(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KubeEdge's own place is edgecore's."""
    config = EdgeCoreConfig.below(node)
    named = node / "edgecore.yaml"
    assert named not in leftovers(config, NodeLocation(named, None)).remove
    monkeypatch.setattr("modules.processes.edgecore.uninstall.files.KUBEEDGE_FILE", named)
    assert named in leftovers(config, NodeLocation(named, None)).remove


def test_logs_of_other_kubelets_stay(tmp_path: Path) -> None:
    """They share a directory with this node's."""
    for name in ("var/log/pods/default_web_" + UID, "var/log/pods/default_other_9", "lib/pods/" + UID):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lib" / LOCK_FILE).touch()
    logs = f"{{podLogsDir: {tmp_path}/var/log/pods}}"
    text = f"modules: {{edged: {{rootDirectory: {tmp_path}/lib, tailoredKubeletConfig: {logs}}}}}"
    (tmp_path / "e.yaml").write_text(text)
    place = NodeLocation(tmp_path / "e.yaml", None)
    config = place.load().config
    assert pod_uids(config) == {UID}
    removed = [path.name for path in leftovers(config, place).remove if path.parent.name == "pods"]
    assert removed == ["default_web_" + UID]


def test_directories_of_root_may_be_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the certificates are in /etc/kubeedge, which an edgecore of root makes for itself alone."""

    def refuse(path: Path, _pattern: str) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "glob", refuse)
    (tmp_path / "e.yaml").write_text(f"modules: {{edged: {{rootDirectory: {tmp_path}/lib}}}}")
    place = NodeLocation(tmp_path / "e.yaml", None)
    found = leftovers(place.load().config, place).remove
    assert not [path for path in found if path.is_relative_to(tmp_path)]


class Runtime:
    """A container runtime with pods of two kubelets, which notes what is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.grace = ""

    def list_pod_sandboxes(self) -> list[Any]:
        """Return three pods, one of another kubelet."""
        return [
            SimpleNamespace(id=f"s-{uid}", labels={POD_UID: uid, POD_NAME: name, POD_NAMESPACE: "default"})
            for uid, name in ((UID, "web"), (OTHER_UID, "db"), ("9", "theirs"))
        ] + [SimpleNamespace(id="s", labels={})]

    def list_containers(self) -> list[Any]:
        """Return a container of each."""
        annotations = {TERMINATION_GRACE: self.grace} if self.grace else {}
        return [
            SimpleNamespace(id=f"c-{uid}", pod_sandbox_id=f"s-{uid}", annotations=annotations)
            for uid in (UID, OTHER_UID, "9")
        ]

    def of(self, uid: str) -> list[str]:
        """Return the calls for a pod."""
        return [call[0] for call in self.calls if call[1].endswith(uid)]

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """The runtime that the node's pods are ended in."""
    runtime = Runtime()

    @contextmanager
    def connected(_config: EdgeCoreConfig) -> Iterator[Runtime]:
        yield runtime

    monkeypatch.setattr(pods, "_runtime", connected)
    return runtime


def end(runtime: Runtime, *uids: str) -> list[str]:
    """End the pods with these UIDs; return what was said."""
    said: list[str] = []
    pods.end_pods(EdgeCoreConfig.default(), frozenset(uids), said.append)
    assert not runtime.of("9")
    return said


def test_pods_of_other_kubelets_stay(runtime: Runtime) -> None:
    """They share containerd; containers end before their sandbox."""
    assert end(runtime, UID) == ["end pod default/web"]
    assert runtime.of(UID) == ["stop_container", "remove_container", "stop_pod_sandbox", "remove_pod_sandbox"]
    assert not runtime.of(OTHER_UID)


def test_pods_end_at_the_same_time(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """110 pods that ignore SIGTERM are gone after one grace period: each waits for all others here."""
    together = threading.Barrier(2, timeout=PATIENCE)
    monkeypatch.setattr(runtime, "stop_container", lambda *_: together.wait(), raising=False)
    end(runtime, UID, OTHER_UID)
    assert not together.broken
    assert {call[1] for call in runtime.calls if call[0] == "remove_pod_sandbox"} == {f"s-{UID}", f"s-{OTHER_UID}"}


@pytest.mark.parametrize(("declared", "wanted"), [("", 5), ("2", 2), ("30", 5), ("9" * 5000, 5), ("-1", 5), ("x", 5)])
def test_the_grace_period_is_the_pods_and_bounded(runtime: Runtime, declared: str, wanted: int) -> None:
    """What an annotation says is not believed: the runtime has it from whoever made the container."""
    runtime.grace = declared
    end(runtime, UID)
    assert ("stop_container", f"c-{UID}", wanted) in runtime.calls


def test_one_pod_that_cannot_be_removed_keeps_no_other(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is told after the others are gone."""

    def refuse(sandbox: str) -> None:
        runtime.calls.append(("remove_pod_sandbox", sandbox))
        if sandbox.endswith(UID):
            raise EdgedError("it is busy")

    monkeypatch.setattr(runtime, "remove_pod_sandbox", refuse, raising=False)
    with pytest.raises(EdgedError, match="it is busy"):
        end(runtime, UID, OTHER_UID)
    assert ("remove_pod_sandbox", f"s-{OTHER_UID}") in runtime.calls


def test_a_container_that_cannot_be_ended_is_removed(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removing it ends it, by CRI's contract."""

    def refuse(*_: Any) -> None:
        raise EdgedError("it did not answer")

    monkeypatch.setattr(runtime, "stop_container", refuse, raising=False)
    end(runtime, UID)
    assert runtime.of(UID) == ["remove_container", "stop_pod_sandbox", "remove_pod_sandbox"]


def test_a_dry_run_changes_nothing(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says everything."""
    before = files(node)
    assert main(["uninstall", "--root", str(node), "--dry-run"]) == ExitCode.OK
    assert files(node) == before
    said = capsys.readouterr().err
    assert f"would remove {node}/edgecore.db\n" in said
    assert f"would remove, if it is empty then: {node}/edged\n" in said


def test_it_asks(node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody can answer, nothing is done; a terminal's owner sees the question, and may say no."""
    before = files(node)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["uninstall", "--root", str(node)]) == ExitCode.NOT_DONE
    assert "--yes" in capsys.readouterr().err
    seen = io.BytesIO()
    answers = SimpleNamespace(isatty=lambda: True, readline=lambda _: "n\n" if seen.getvalue() else "y\n")
    monkeypatch.setattr("sys.stdin", answers)
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(seen))
    assert main(["uninstall", "--root", str(node)]) == ExitCode.NOT_DONE
    assert files(node) == before


def test_yes_lists_no_plan_and_names_what_stays(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Node object is the cloud's."""
    assert main(["uninstall", "--root", str(node), "--yes"]) == ExitCode.OK
    said = capsys.readouterr().err
    assert "will " not in said
    assert "`kubectl delete node " in said


def test_a_running_node_is_refused(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless it is to be stopped."""
    with ExitStack() as stack:
        lock_root_directory(node / "edged", stack)
        assert main(["uninstall", "--root", str(node), "--yes"]) == ExitCode.NOT_DONE
    assert "edgecore is running" in capsys.readouterr().err


def test_a_pod_that_came_before_the_stop_is_ended_too(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = set[str]()
    monkeypatch.setattr(commands, "stop", lambda root: (root / "pods/late").mkdir())
    monkeypatch.setattr(commands, "end_pods", lambda *_: None)
    monkeypatch.setattr(commands, "remove_cgroups", lambda _config, uids, _say: ended.update(uids))
    assert main(["uninstall", "--yes", "--stop", "--root", str(node)]) == ExitCode.OK
    assert ended == {UID, "late"}
    assert not (node / "edged/pods").exists()


def test_nothing_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That is no error."""
    assert main(["uninstall", "--root", str(tmp_path / "no"), "--yes"]) == ExitCode.OK
    assert "nothing of a node is left" in capsys.readouterr().err


def _show_shim(processes: Path, number: int, logs: Path) -> None:
    """Let a process seem to be the parent of a container whose log is gone."""
    of_shim = processes / str(number)
    (of_shim / "fd").mkdir(parents=True)
    (of_shim / "cmdline").write_bytes(b"python\0/x/modules/runtimes/shim/__main__.py\0" + b"16\0")
    (of_shim / "fd" / "9").symlink_to(logs / "default_web_1" / "web" / "0.log (deleted)")
    (of_shim / "stat").write_text(f"{number} (python) S 1 {' 0' * 49}")


def test_no_process_of_a_node_with_a_lock_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its logs were removed, or are on a disk that is not there just now: its pods run on."""
    config, processes = EdgeCoreConfig.below(tmp_path / "n"), tmp_path / "proc"
    lock = config.modules.edged.root_directory / LOCK_FILE
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setattr(lost, "_PROC", processes)
    _show_shim(processes, 2**22 + 1, config.modules.edged.tailored_kubelet_config.pod_logs_dir)
    assert lost.signal_lost(config) == 0
    lock.unlink()
    assert lost.signal_lost(config) == 1


def test_a_process_that_cannot_be_looked_at_hides_no_lost_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has ended meanwhile, or is another user's."""
    config, processes = EdgeCoreConfig.below(tmp_path / "n"), tmp_path / "proc"
    _show_shim(processes, 2**22 + 1, config.modules.edged.tailored_kubelet_config.pod_logs_dir)
    listed = [processes / "1", processes / str(2**22 + 1)]
    monkeypatch.setattr(lost, "_PROC", SimpleNamespace(iterdir=lambda: listed))
    assert lost.signal_lost(config) == 1


@pytest.mark.parametrize("command", [["uninstall"], ["reset", "--runtime"]])
def test_processes_whose_files_are_gone_are_ended(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody has removed the directory of a node whose containers run, and its name: none is told, as by guess."""
    logs, processes = tmp_path / "n" / "logs" / "pods", tmp_path / "proc"
    with subprocess.Popen(["sleep", "infinity"]) as shim:
        _show_shim(processes, shim.pid, logs)
        monkeypatch.setattr(lost, "_PROC", processes)
        try:
            words = [*command, "--root", str(tmp_path / "n")]
            logs.mkdir(parents=True)  # of another node, which has removed a rotated file
            assert lost.signal_lost(EdgeCoreConfig.below(tmp_path / "n"), signal.SIGKILL) == 0
            shutil.rmtree(tmp_path / "n")
            main([*words, *(["--dry-run"] if command == ["uninstall"] else [])])
            assert shim.poll() is None
            assert "processes of pods whose files are gone: 1" in capsys.readouterr().err
            assert main([*words, "--yes"]) == ExitCode.OK
            assert shim.wait(PATIENCE) == -signal.SIGKILL
        finally:
            shim.kill()
    said = "".join(capsys.readouterr())
    assert "ended the processes of pods whose files are gone: 1" in said
    assert "kubectl delete node" not in said
    assert (f"what was left of the node in {tmp_path / 'n'} is removed" in said) == (command == ["uninstall"])


def test_layers_that_only_sub_ids_may_remove_are_the_nodes(tmp_path: Path) -> None:
    """`rm -rf` of an ordinary user leaves them."""
    layers = tmp_path / "n" / "edged" / "oci" / "images" / "layers"
    layers.mkdir(parents=True)
    config, location = EdgeCoreConfig.below(tmp_path / "n"), NodeLocation(None, tmp_path / "n")
    assert leftovers(config, location).remove == [tmp_path / "n" / "edged" / "oci"]


def test_its_unit_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Another node's unit stays."""
    own, other = tmp_path / "own.service", tmp_path / "other.service"
    assert main(["unit", "--root", str(tmp_path / "n")]) == ExitCode.OK
    own.write_text(capsys.readouterr().out)
    assert main(["unit", "--root", str(tmp_path / "m")]) == ExitCode.OK
    other.write_text(capsys.readouterr().out)
    monkeypatch.setattr(commands, "_UNITS", (str(own), str(other), "/nowhere"))
    assert main(["uninstall", "--root", str(tmp_path / "n"), "--yes"]) == ExitCode.OK
    assert (own.exists(), other.exists()) == (False, True)
    assert "daemon-reload" in capsys.readouterr().err


def test_what_cannot_be_removed_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is the error; the key of the node, for instance, is among the others."""
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.touch()
    empty = tmp_path / "empty"
    empty.mkdir()

    def removed(path: Path) -> None:
        if path.name in "ab":
            raise OSError(errno.EBUSY, f"busy {path.name}")
        remove_tree(path)

    monkeypatch.setattr("modules.processes.edgecore.uninstall.files.remove_tree", removed)
    with pytest.raises(OSError, match="busy a"):
        Leftovers(paths, [empty]).remove_all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_container_that_cannot_be_stopped_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ends it."""
    runtime = Mock()
    runtime.list_pod_sandboxes.return_value = [SimpleNamespace(id="s1", labels={POD_UID: UID})]
    runtime.list_containers.return_value = [SimpleNamespace(id="c1", pod_sandbox_id="s1", annotations={})]
    runtime.stop_container.side_effect = EdgedError("stop container")
    monkeypatch.setattr(pods, "_runtime", lambda _: nullcontext(runtime))
    pods.end_pods(EdgeCoreConfig(), frozenset({UID}), lambda _: None)
    assert [name for name, *_ in runtime.method_calls[2:]] == [
        "stop_container",
        "remove_container",
        "stop_pod_sandbox",
        "remove_pod_sandbox",
    ]
