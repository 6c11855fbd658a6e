"""`edgecore runtime`: a CRI server without a node, whose containers outlive it."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from protos.cri.v1 import api_pb2 as cri
from tests.end_to_end.processes import REPOSITORY, run_program
from tests.modules.runtimes.oci.node import OciPods
from tests.modules.runtimes.oci.node import node_directory as oci_directory
from tests.modules.runtimes.process.node import Node, node_directory
from tests.support.patience import PATIENCE

_PROGRAM = [sys.executable, "-m", "modules.processes.edgecore"]


@contextmanager
def _served(node: Node, kind: str) -> Iterator[None]:
    """Serve, and end by SIGTERM."""
    options = ["--kind", kind, "--socket", str(node.socket), "--root", str(node.directory)]
    with subprocess.Popen(
        [*_PROGRAM, "runtime", *options], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"serving CRI of {kind} at unix://{node.socket}\n"
            node.connect()
            yield
            node.disconnect()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == ExitCode.OK
        finally:
            process.kill()


@contextmanager
def _client(kind: str) -> Iterator[Node]:
    """A client of a runtime that is not started; at the end everything is removed by `edgecore reset`."""
    with oci_directory() if kind == "oci" else node_directory() as directory:
        node = OciPods(directory) if kind == "oci" else Node(directory)
        if kind == "oci":
            (directory / "edged").mkdir()
            shutil.move(directory / "archives", directory / "edged" / "image-archives")
        try:
            yield node
        finally:
            _reset(directory, kind)
            node.clock.close()


def _reset(directory: Path, kind: str) -> None:
    options = ["--runtime", "--yes", "--kind", kind, "--root", str(directory)]
    run_program("edgecore", "reset", *options).check_returncode()


def test_images_are_imported_by_a_runtime_without_a_node() -> None:
    """It is found by the options with which it was started."""
    with _client("oci") as node:
        where = ["--kind", "oci", "--socket", str(node.socket), "--root", str(node.directory)]
        kept = node.directory / "edged" / "image-archives"
        archive = shutil.move(next(kept.iterdir()), node.directory / "other.tar")
        with _served(node, "oci"):
            assert "busybox" not in run_program("edgecore", "images", "list", *where).stdout
            done = run_program("edgecore", "images", "import", *where, str(archive))
            assert (done.returncode, done.stderr) == (0, "")
            assert "busybox" in done.stdout
            elsewhere = [*where[:-1], str(node.directory / "elsewhere")]
            (node.directory / "bad.tar").write_bytes(b"no tar at all")
            for options, file, why in ((where, "bad.tar", "bad.tar"), (elsewhere, "other.tar", "--root")):
                refused = run_program("edgecore", "images", "import", *options, str(node.directory / file))
                assert (refused.returncode, refused.stdout, why in refused.stderr) == (ExitCode.NOT_DONE, "", True)
            assert [each.name for each in node.directory.glob("**/image-archives/*")] == ["other.tar"]


@pytest.mark.parametrize("kind", ["processes", "oci"])
def test_cri_is_served_without_a_node(kind: str) -> None:
    """A container runs on after the end of its server, and the next server has it."""
    with _client(kind) as node:
        with _served(node, kind):
            container = node.shell("exec sleep 1000")
            assert node.execute(container, "echo", "hello").stdout == b"hello\n"
            pid = node.pid(container)
            where = ["--kind", kind, "--socket", str(node.socket), "--root", str(node.directory)]
            assert run_program("edgecore", "containers", "--quiet", *where).stdout.split() == [container]
        with _served(node, kind):
            assert node.status(container).state == cri.CONTAINER_RUNNING
            assert node.pid(container) == pid
            node.stop(container, 0)
