"""SIGKILL to the process that holds the store, at many moments of a pull: nothing is left, nothing is half there."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from modules.runtimes.oci.images import ImageStore, RootFilesystems
from tests.modules.runtimes.oci.images.registry import Handler, TestRegistry
from tests.modules.runtimes.oci.images.tars import directory, docker_archive, file, tar
from tests.modules.runtimes.oci.images.test_pulls import pull
from tests.support.patience import PATIENCE
from tests.support.slow import one_in

_LAYERS = [
    tar(*(file(f"{name}/file-{number}", bytes([number % 256]) * 3000) for number in range(200)))
    for name in ("one", "two", "three")
]
_PROGRAM = """
import sys
from pathlib import Path
from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore
from protos.cri.v1 import api_pb2 as cri

store = ImageStore(Path(sys.argv[1]), RealClock(), Path("/nonexistent"))
if sys.argv[2] == "pull":
    store.pull(cri.PullImageRequest(image=cri.ImageSpec(image=sys.argv[3])))
else:
    store.import_archive(Path(sys.argv[3]))
"""


@pytest.fixture
def registry() -> Iterator[TestRegistry]:
    """A registry with an image of three layers."""
    with TestRegistry() as started:
        started.add(_LAYERS)
        yield started


def _start(store: ImageStore, operation: str, what: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _PROGRAM, str(store.layout.root), operation, what]
    return subprocess.Popen(command, cwd=Path(__file__).parents[5], stderr=subprocess.DEVNULL)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process, and wait until its workers have ended too: the kernel kills them, and one that has not asked it
    to yet ends itself. They are stopped before, so that none starts another one that is not waited for.
    """
    workers: list[psutil.Process] = []
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        while new := set(psutil.Process(process.pid).children(recursive=True)) - set(workers):
            for each in new:
                with suppress(psutil.NoSuchProcess):
                    each.suspend()
            workers += new
    process.send_signal(signal.SIGKILL)
    process.wait()
    for each in workers:
        with suppress(psutil.NoSuchProcess):
            each.resume()
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE)
    assert alive == []


def _whole(store: ImageStore, name: str, scratch: Path) -> None:
    """Another pull succeeds, and what it makes is whole."""
    image = store.find(name)
    assert image is not None
    (scratch / "container").mkdir(exist_ok=True)
    mounted = RootFilesystems(store)
    root = mounted.mount(image.id, scratch / "container")
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) == 600
    assert all(path.read_bytes() == bytes([int(path.name[5:]) % 256]) * 3000 for path in files)
    mounted.remove(scratch / "container")


@pytest.mark.parametrize("at", one_in(3, range(6)))
def test_a_pull_is_killed_at_each_request(store: ImageStore, registry: TestRegistry, scratch: Path, at: int) -> None:
    """The registry keeps the request waiting until the process is dead; the layers before it are being unpacked."""
    asked = threading.Event()
    name = f"{registry.address}/team/app:1"
    count = iter(range(1000))

    def waiting(handler: Handler) -> bool:
        if next(count) == at:
            asked.set()
            handler.registry.released.wait()
        return False

    registry.fail("", *[waiting] * 100)
    process = _start(store, "pull", name)

    def note_end() -> None:
        process.wait()
        asked.set()

    watcher = threading.Thread(target=note_end)
    watcher.start()
    asked.wait()
    _kill(process)
    watcher.join()
    registry.faults.clear()
    registry.released.set()
    later = ImageStore(store.layout.root, store._clock, scratch)
    later.keep_only({})
    assert [path.name for path in later.layout.layers.iterdir() if path.name.startswith(".")] == []
    pull(later, name)
    _whole(later, name, scratch)


@pytest.mark.slow
def test_an_import_is_killed_at_any_moment(store: ImageStore, scratch: Path) -> None:
    """Whenever a new name appears in the store."""
    archive = docker_archive(scratch / "a.tar", [tar(directory("three")), *_LAYERS], ["example.org/app:1"])
    for moment in range(8):
        process = _start(store, "import", str(archive))
        _wait_for_changes(store.layout.layers, moment, process)
        _kill(process)
        later = ImageStore(store.layout.root, store._clock, scratch)
        later.keep_only({})
        if later.find("example.org/app:1") is None:
            assert list(later.layout.layers.iterdir()) == []
            assert list(later.layout.blobs.glob("*/*")) == []
        else:
            _whole(later, "example.org/app:1", scratch)
            break
    assert later.import_archive(archive)
    _whole(later, "example.org/app:1", scratch)


def _wait_for_changes(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait for so many different listings of a directory, or for the end of the process."""
    seen = {tuple(sorted(os.listdir(path)))}  # noqa: PTH208 - names alone
    while len(seen) <= count and process.poll() is None:
        seen.add(tuple(sorted(os.listdir(path))))  # noqa: PTH208
