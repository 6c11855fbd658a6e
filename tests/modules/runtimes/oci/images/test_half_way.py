"""Copies, locks and work on images that fail half-way: what they have left."""

import errno
import gzip
import hashlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import BytesIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, Mock

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.runtimes.engine.errors import DeadlinePassedError, RunFailedError
from modules.runtimes.oci.images import (
    ImageRoot,
    ImageStore,
    MappedRoot,
    copied_roots,
    idmapping,
    root_filesystems,
    worker_process,
)
from modules.runtimes.oci.images.copied_roots import copy_layers
from modules.runtimes.oci.images.declared_volumes import make_declared_volumes
from modules.runtimes.oci.images.errors import NoSuchObjectError
from modules.runtimes.oci.images.index import ImageIndex
from modules.runtimes.oci.images.model import ImageConfig, LayerUsage, StorageUsage, StoredImage
from modules.runtimes.oci.images.store import Layers
from modules.runtimes.oci.images.worker import (
    exporting,
    importing,
    layer_tree,
    platforms,
    publication,
    pulling,
    sparse,
    unpack,
    unpacker,
    work,
)
from modules.runtimes.oci.images.worker.authorization import RegistryCredentials
from modules.runtimes.oci.images.worker.compression import PlainBytes
from modules.runtimes.oci.images.worker.documents import Descriptor
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.hosts import RegistryHost, address_of
from modules.runtimes.oci.images.worker.http_exchange import HttpExchange
from modules.runtimes.oci.images.worker.inside import StepBudget, open_inside
from modules.runtimes.oci.images.worker.layer_tree import LayerTree, LowerLayers
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.publication import Disk
from modules.runtimes.oci.images.worker.pulling import Downloads
from modules.runtimes.oci.images.worker.repository import Repository
from modules.runtimes.oci.images.worker.retries import RetryPolicy
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.tar_entries import TarEntries
from modules.runtimes.oci.images.worker.tar_stream import BLOCK, TarStream
from modules.runtimes.oci.images.worker.unpack import LayerSource
from modules.runtimes.oci.images.worker_process import Needs, WorkerProcess
from modules.runtimes.shim import kernel
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call, left_by_repeating


def _opens_inside(directory: Path) -> None:
    root = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        found = open_inside(root, [b"layer", b"etc"], StepBudget(100))
        assert found is not None
        os.close(found)
    finally:
        os.close(root)


def _locks(directory: Path) -> None:
    layout = StoreLayout(directory / "store")
    layout.make()
    with layout.locked("layer"):
        (directory / "layer").stat()


_numbers = count()
_DIGEST = f"sha256:{hashlib.sha256(b'text').hexdigest()}"


def _copies(directory: Path) -> None:
    copy_layers([directory / "layer"], directory / f"copy-{next(_numbers)}")


def _makes_volumes(directory: Path) -> None:
    (directory / "container").mkdir(exist_ok=True)
    make_declared_volumes(directory / "container", ImageRoot(directory / "layer"), ["/etc", "/data"])


def _unpacks(directory: Path) -> None:
    made = directory / f"layer-{next(_numbers)}"
    made.mkdir()
    below = [directory / "layer", directory / "layer" / "etc"]
    unpack.unpack(LayerSource(0, 0, 0), made, below, UnpackLimits())


def _imports(directory: Path) -> None:
    """Import a file that is no archive, under limits of this version and of another one."""
    for limits in ({}, {"unknown": 1}):
        request = {"limits": limits, "keep_blobs": False}
        with suppress(ImageWorkError, TypeError):
            importing.import_archive(directory / "layer/etc/file", StoreLayout(directory), request, Mock())


def _imports_compressed(directory: Path) -> None:
    (directory / "archive").write_bytes(gzip.compress(b"text"))
    layout = StoreLayout(directory / "store")
    layout.make()
    with suppress(ImageWorkError):
        importing.import_archive(directory / "archive", layout, {"limits": {}, "keep_blobs": False}, Mock())


def _fetches(directory: Path) -> None:
    layout, descriptor = StoreLayout(directory / "store"), Descriptor("", _DIGEST, 4, {}, {})
    layout.make()
    registry: Any = SimpleNamespace(name="r", fetch=lambda *_: None)
    Downloads(registry, layout, [descriptor], Mock())._fetch(descriptor).close()


def _keeps(directory: Path) -> None:
    ingest = directory / f"ingest-{next(_numbers)}"
    ingest.mkdir()
    with (directory / "layer/etc/file").open("rb") as file:
        source = LayerSource(file.fileno(), 0, 4)
        importing._Keeping(cast("Any", SimpleNamespace(ingest=ingest)), Mock())._copy(_DIGEST, source)


@pytest.mark.parametrize(
    ("operation", "calls"),
    [
        (_opens_inside, 3),
        (_unpacks, 10),
        (_imports, 2),
        (_imports_compressed, 10),
        (_fetches, 10),
        (_keeps, 5),
        (_locks, 8),
        (_copies, 20),
        (_makes_volumes, 20),
        (lambda directory: Disk().sync_everything(directory), 1),
    ],
    ids=["inside", "unpack", "import", "import compressed", "fetch", "keep", "lock", "copy", "volumes", "sync"],
)
def test_files_are_closed_after_a_failure_of_any_call(
    scratch: Path, operation: Callable[[Path], object], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a copy that has failed is not there, so that the next one is whole."""
    monkeypatch.setattr(unpack, "_in_child", lambda *_: None)
    (scratch / "layer" / "etc").mkdir(parents=True)
    (scratch / "layer" / "etc" / "file").write_bytes(b"text")

    def make(failing: Failing) -> Attempt:
        def run() -> None:
            with failing.kernel_calls():
                operation(scratch)

        return Attempt(run, left=lambda: sorted(each.name for each in scratch.glob("copy*.new")), is_repeatable=False)

    assert fail_at_each_call(make) >= calls


def test_a_copy_that_was_cut_short_is_made_anew(scratch: Path) -> None:
    for path in (scratch / "layer", scratch / "copy.new"):
        path.mkdir()
        (path / path.name).touch()
    copy_layers([scratch / "layer"], scratch / "copy")
    assert sorted(each.name for each in scratch.iterdir()) == ["copy", "layer"]
    assert [each.name for each in (scratch / "copy").iterdir()] == ["layer"]


def test_a_copy_is_whole_where_files_have_no_attributes_and_end_with_a_hole(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says both by errors."""
    monkeypatch.setattr(os, "listxattr", Failing(0, OSError(errno.ENOTSUP, "no attributes")).call(os.listxattr))
    (scratch / "file").write_bytes(b"text")
    os.truncate(scratch / "file", 1 << 20)
    with copied_roots._open(scratch / "file", os.O_RDONLY) as file:
        assert copied_roots._attributes(file) == {}
        parts = list(copied_roots._parts(file, 1 << 20))
    assert (parts[0][0], len(parts), parts[0][1] < 1 << 20) == (0, 1, True)


def test_a_mapped_mount_that_cannot_be_made_leaves_nothing(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a descriptor nor the place of one that was made before; nor does one whose user fails."""

    def make(failing: Failing) -> Attempt:
        def call(number: int, *_: object) -> int:
            return os.open(scratch, os.O_PATH) if number == idmapping._OPEN_TREE else 0

        def run() -> None:
            with idmapping.id_mapped([scratch, scratch], Path("/proc/self/ns/user"), scratch):
                failing.step()

        monkeypatch.setattr(idmapping, "_call", failing.call(call))
        return Attempt(run, left=lambda: sorted(scratch.iterdir()))

    assert fail_at_each_call(make) == 7


def test_an_archive_that_cannot_be_written_leaves_no_part(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: Path, *_: object) -> None:
        path.touch()
        raise PlannedError

    monkeypatch.setattr(exporting, "_write", write)
    with pytest.raises(PlannedError):
        exporting.export_image({"archive": str(scratch / "image.tar")}, StoreLayout(scratch), cast("Any", None))
    assert not list(scratch.iterdir())


def test_a_layer_that_cannot_be_unpacked_is_fetched_anew(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is kept, and the process that unpacks is ended."""
    done = list[str]()
    blob = SimpleNamespace(descriptor=0, remove=lambda: done.append("removed"))
    downloads = SimpleNamespace(start=lambda *_: None, wait=lambda _: blob)
    unpacker = SimpleNamespace(add_layer=Failing(0).call(print), close=lambda: done.append("closed"))
    for name, double in (("Downloads", downloads), ("Unpacker", unpacker), ("LayersProgress", Mock())):
        monkeypatch.setattr(pulling, name, lambda *_, double=double: double)
    work, found = Mock(layout=StoreLayout(scratch)), Mock()
    found.manifest.layers, found.config.diff_ids = [Mock(size=1)], ["sha256:1"]
    with pytest.raises(PlannedError):
        pulling._add_layers(work, found, ("sha256:1",), 1)
    assert done == ["removed", "closed"]


@pytest.mark.parametrize("error", [PlannedError(), RuntimeError("of this test")])
def test_a_trial_of_another_architecture_that_fails_is_closed(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    before = census()
    monkeypatch.setattr(subprocess, "run", Failing(0, error).call(subprocess.run))
    if isinstance(error, OSError):
        assert not platforms.runs.__wrapped__("386")
    else:
        with pytest.raises(RuntimeError, match="of this test"):
            platforms.runs.__wrapped__("386")
    assert not census().more_than(before)


def test_a_pull_that_fails_is_no_longer_under_way(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_work", Failing(0).call(print))
    with pytest.raises(PlannedError):
        store.pull(cri.PullImageRequest(image=cri.ImageSpec(image="example.org/app:1")), lambda _: True)
    assert store.pulls.all() == {}


def test_a_worker_that_fails_protects_nothing_and_what_it_has_unpacked_is_collected(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its layers would stay as long as edgecore runs."""
    collected, working = list[str](), list[int]()

    def fails(worker: WorkerProcess, _request: object) -> None:
        worker._protect(Needs(("sha256:a",), ()))
        working.append(store._working)
        raise PlannedError

    monkeypatch.setattr(WorkerProcess, "run", fails)
    monkeypatch.setattr(store, "collect", lambda: collected.append(f"{store._working} work"))
    before = census((store,))
    with pytest.raises(PlannedError):
        store._work("pull", {}, lambda _: True)
    with pytest.raises(PlannedError):
        store._sweep()
    assert (collected, working, store._working) == (["0 work"], [1, 1], 0)
    assert not census((store,)).more_than(before)


def test_a_worker_whose_answer_cannot_be_read_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    before = census()
    worker = WorkerProcess("pull", lambda _: None)
    monkeypatch.setattr(worker, "_converse", Failing(0).call(worker._converse))
    with pytest.raises(PlannedError):
        worker.run({"operation": "sweep"})
    assert worker._process is not None
    assert worker._process.returncode is not None
    assert not census().more_than(before)


def test_a_worker_is_killed_before_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have hours of work, and whoever cancels it waits, too."""
    process = Mock()
    monkeypatch.setattr(WorkerProcess, "_start", lambda _: process)
    monkeypatch.setattr(WorkerProcess, "_converse", Failing(0).call(print))
    with pytest.raises(PlannedError):
        WorkerProcess("pull", lambda _: None).run({})
    assert [name for name, *_ in process.method_calls if "." not in name] == ["kill", "wait"]


def test_a_layer_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    """A node pulls other images for years."""
    layout, clock, numbers = StoreLayout(tmp_path / "store"), Simulation(0).clock, count()
    layout.make()
    layers = Layers(layout, clock)

    def cycle() -> None:
        chain_id = f"sha256:{next(numbers):064x}"
        layout.layer(chain_id).mkdir()
        layout.record(chain_id).write_bytes(msgspec.json.encode(LayerUsage(7, 1)))
        assert layers.total() == StorageUsage(7, 1)
        layers.discard_unneeded((), (), is_idle=False)
        assert layers.total() == StorageUsage(0, 0)

    assert not left_by_repeating(cycle, layers)


def test_an_image_that_is_not_there_is_not_held(store: ImageStore) -> None:
    before = census((store,))
    with pytest.raises(NoSuchObjectError):
        store.hold("c1", "sha256:a")
    assert not census((store,)).more_than(before)


def test_a_file_system_that_cannot_be_synced_is_closed(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "sync_file_system", Failing(0).call(print))
    before = census()
    with pytest.raises(PlannedError):
        Disk().sync_everything(scratch)
    assert not census().more_than(before)


def test_files_of_layers_are_closed_after_an_error(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that is being written, and one below it that is looked into."""
    (scratch / "file").touch()
    root = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
    monkeypatch.setattr(layer_tree, "_write_body", Failing(0).call(print))
    monkeypatch.setattr(layer_tree, "is_whiteout", Failing(0).call(print))
    before = census()
    with pytest.raises(PlannedError):
        LayerTree._make_file(cast("Any", SimpleNamespace(size=0)), bytes(scratch / "new"), Mock(), Mock())
    with pytest.raises(PlannedError):
        LowerLayers([root], StepBudget(100)).file((b"file",))
    assert not census().more_than(before)
    os.close(root)


def test_a_layer_whose_answer_cannot_be_read_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be waited for, however long it unpacks."""
    child, killed = os.posix_spawnp("true", ["true"], os.environ), list[int]()
    monkeypatch.setattr(os, "fork", lambda: child)
    monkeypatch.setattr(os, "kill", lambda number, _: killed.append(number))
    monkeypatch.setattr(unpack, "_read_answer", Failing(0).call(print))
    before = census()
    with pytest.raises(PlannedError):
        unpack._in_child(0, [], cast("Any", None))
    assert (killed, census().more_than(before)) == ([child], [])
    with pytest.raises(ChildProcessError):
        os.waitpid(child, 0)


def test_a_layer_without_a_process_leaves_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker goes on with the next one."""
    monkeypatch.setattr(os, "fork", Failing(0, BlockingIOError()).call(print))
    before = census()
    with pytest.raises(BlockingIOError):
        unpack._in_child(0, [], cast("Any", None))
    assert not census().more_than(before)


def test_a_registry_that_leads_elsewhere_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = address_of(f"http://127.0.0.1:{server.getsockname()[1]}/v2/")
        assert here is not None
        exchange = cast("Any", HttpExchange.__new__(HttpExchange))
        exchange._seconds, exchange._response, exchange._endpoint = 60.0, None, SimpleNamespace(address=here)
        monkeypatch.setattr(exchange, "_check_outside", Failing(0).call(print))
        before = census()
        with pytest.raises(PlannedError) as caught:
            exchange._connect(here, None)
        assert not census().more_than(before)
        assert caught.value is not None, "what the error holds is not collected before"


@pytest.mark.parametrize(
    "asks",
    [
        lambda registry, _: registry.digest_of("1"),
        lambda registry, _: registry.manifest("1"),
        lambda registry, descriptor: registry.document(descriptor),
        lambda registry, descriptor: registry.fetch(descriptor, Mock(position=lambda: 0), print),
        lambda registry, _: registry._servers[0]._authorization._ask("https://example.org/token", {}),
    ],
    ids=["digest", "manifest", "document", "blob", "token"],
)
def test_a_connection_to_a_registry_is_closed_after_any_error(
    monkeypatch: pytest.MonkeyPatch, asks: Callable[[Repository, Descriptor], object]
) -> None:
    """There is one for each request."""
    here = address_of("https://example.org")
    assert here is not None
    no_memory = Mock(side_effect=MemoryError("of this test"))
    connection = Mock()
    connection.getresponse.return_value = Mock(status=200, read=no_memory, read1=no_memory, getheader=no_memory)
    monkeypatch.setattr(HttpExchange, "_connect", lambda *_: connection)
    endpoints = [RegistryHost(here, "/v2", is_registry=True)]
    registry = Repository("example.org", "a", endpoints, RegistryCredentials(), RetryPolicy())
    with pytest.raises(MemoryError, match="of this test"):
        asks(registry, Descriptor("", _DIGEST, 4, {}, {}))
    assert connection.close.called


def _imports_nothing(directory: Path) -> None:
    importing._import(Mock(), StoreLayout(directory), UnpackLimits(), Mock(), keeps=False)


def _pulls_nothing(directory: Path) -> None:
    request = {"reference": "example.org/app:1", "root": str(directory), "registries": str(directory), "auth": {}}
    pulling.pull({**request, "waiting": {}, "known": (), "limits": {}, "parallel": 1, "keep_blobs": False}, Mock())


def _unpacks_nothing(directory: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.send(b'{"publish": true}')
        unpacker.serve_unpacking(theirs.detach(), msgspec.json.encode({"root": str(directory), "limits": {}}).decode())


@pytest.mark.parametrize("works", [_imports_nothing, _pulls_nothing, _unpacks_nothing])
def test_what_a_worker_has_unpacked_in_vain_is_removed_at_once(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, works: Callable[[Path], None]
) -> None:
    """The store removes it only when no other pull is under way, which may take hours."""
    made = MagicMock(publish=Failing(0, MemoryError("of this test")).call(print))
    made.__enter__.return_value, made.__exit__.return_value = made, False
    for module in (importing, pulling, unpacker):
        monkeypatch.setattr(module, "Publication", lambda *_: made)
    monkeypatch.setattr(importing, "images_of", lambda *_: ())
    found = Mock(documents={})
    found.manifest.layers, found.config.diff_ids = (), ()
    monkeypatch.setattr(pulling, "_resolve", lambda *_: found)
    monkeypatch.setattr(pulling, "_add_layers", lambda *_: True)
    monkeypatch.setattr(kernel, "die_with_peer", lambda _: None)
    monkeypatch.setattr(os, "umask", lambda _: 0)
    with pytest.raises(MemoryError, match="of this test"):
        works(scratch)
    assert made.__exit__.called


def test_a_process_that_cannot_unpack_does_not_go_on_as_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[int]()
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(kernel, "die_with_parent", Failing(0).call(print))
    with pytest.raises(PlannedError):
        unpack._run_child(os.getppid(), 0, [], cast("Any", None))
    assert ended == [0]


def test_a_process_that_unpacks_and_cannot_be_started_leaves_no_socket_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", Failing(0).call(print))
    one, before = unpacker.Unpacker(tmp_path, UnpackLimits()), census()
    with pytest.raises(PlannedError) as caught:
        one._started()
    one.close()
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


def test_the_layers_of_a_mount_that_fails_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are mounted by descriptors, as their paths have a colon."""
    layer = tmp_path / "a:b"
    layer.mkdir()
    failing = Failing(0, OSError(errno.ENOSPC, "no space"))
    monkeypatch.setattr(root_filesystems, "mount", failing.call(print))
    before = census()
    with pytest.raises(RunFailedError, match="no space") as caught:
        root_filesystems._mount_overlay([layer], tmp_path / "target", None, None)
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


@pytest.mark.parametrize(("answer", "is_over"), [(False, True), (True, False), (None, False)])
def test_work_for_a_call_that_has_ended_already_is_given_up(
    monkeypatch: pytest.MonkeyPatch, answer: bool | None, *, is_over: bool
) -> None:
    worker = Mock()
    monkeypatch.setattr("modules.runtimes.oci.images.store.WorkerProcess", lambda *_: worker)
    there: Any = SimpleNamespace(
        _collecting_after_failure=nullcontext, _working_on=nullcontext, _added=lambda _: (), _request=dict
    )
    ImageStore._work(there, "pull", {}, lambda _: answer)
    assert worker.cancel.called is is_over


def _image(*tags: str, **fields: Any) -> StoredImage:
    return StoredImage("sha256:abc", tags, (), ImageConfig(), ("c1",), {"sha256:d": 4}, **fields)


def test_an_image_is_told_as_it_is_known(tmp_path: Path) -> None:
    """With all its names, and with its layers and blobs."""
    index = ImageIndex(tmp_path / "images.json")
    index.add([_image("a:1")])
    there: Any = SimpleNamespace(_lock=nullcontext(), _index=index, _layers=SimpleNamespace(usage=lambda _: 100))
    (found,) = ImageStore._added(there, [_image("b:1")])
    assert (set(found.repo_tags), found.size) == ({"a:1", "b:1"}, 104)


def test_a_removed_image_that_comes_again_has_its_new_names_only(tmp_path: Path) -> None:
    """Its containers have kept it; nobody has asked for the old names again."""
    index = ImageIndex(tmp_path / "images.json")
    index.add([_image("a:1", removed=True)])
    index.add([_image("b:1")])
    assert [(each.repo_tags, each.removed) for each in index.all_images()] == [(("b:1",), False)]


def test_an_index_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = ImageIndex(tmp_path / "images.json")
    index.add([_image("a:1")])
    full = Mock(side_effect=OSError(errno.ENOSPC, "full"))
    monkeypatch.setattr("modules.runtimes.oci.images.index.replace_file", full)
    changes: tuple[Callable[[], None], ...] = (
        lambda: index.add([_image("b:1")]),
        lambda: index.drop(["sha256:abc"]),
    )
    for change in changes:
        with pytest.raises(OSError, match="full"):
            change()
        assert [each.repo_tags for each in index.images()] == [("a:1",)]


def test_an_index_is_set_aside_only_if_it_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While this process has no more descriptors it is not known: all images would be gone."""
    path = tmp_path / "images.json"
    path.write_bytes(b"{")
    with monkeypatch.context() as patched:
        full = Mock(side_effect=OSError(errno.EMFILE, "of this test"))
        patched.setattr("modules.runtimes.oci.images.index.read_file", full)
        with pytest.raises(OSError, match="of this test"):
            ImageIndex(path)
    assert path.exists()
    assert ImageIndex(path).images() == ()
    assert not path.exists()


def test_what_another_worker_has_published_first_goes(scratch: Path) -> None:
    disk = Mock(publish=Mock(side_effect=OSError(errno.EEXIST, "it is there")))
    published = publication.Publication(StoreLayout(scratch), UnpackLimits(), disk)
    (scratch / "part").touch()
    published.add_file(_DIGEST, scratch / "part")
    published.publish()
    assert list(scratch.iterdir()) == []


def test_layers_are_protected_before_the_worker_goes_on() -> None:
    """It takes them for granted from then on."""
    done = list[str]()
    worker = WorkerProcess("pull", lambda _: done.append("protect"))
    answers = BytesIO(b'{"needs":{"layers":[],"blobs":[]}}\n' + b'{"result":[]}\n')
    requests: Any = SimpleNamespace(write=lambda _: done.append("answer"), flush=lambda: None)
    assert worker._converse(requests, answers) == ()
    assert done == ["protect", "answer"]


@pytest.mark.parametrize("is_alive", [True, False])
def test_nothing_is_unpacked_for_a_worker_that_has_ended_before_the_kernel_was_asked_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_alive: bool
) -> None:
    """Its job waits in the socket: the layer appeared after the store was tidied up."""
    done = list[object]()
    monkeypatch.setattr(kernel, "die_with_parent", lambda _: None)
    monkeypatch.setattr(os, "_exit", Failing(0).call(os._exit))
    monkeypatch.setattr(os, "umask", lambda _: 0)

    def do(*job: object) -> dict[str, object]:
        done.append(job)
        return {}

    monkeypatch.setattr(unpacker, "_do", do)
    settings = msgspec.json.encode({"root": str(tmp_path), "limits": {}}).decode()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.send(b"{}")
        if is_alive:
            monkeypatch.setattr(unpacker, "_do", Failing(0).call(print))
        else:
            ours.close()
        descriptor = os.dup(theirs.fileno())
        with pytest.raises(PlannedError):
            unpacker.serve_unpacking(descriptor, settings)
        if not is_alive:
            os.close(descriptor)
    assert not done


@pytest.mark.parametrize(
    ("root", "hint"),
    [
        (None, "overlayfs needs"),
        (MappedRoot(None, 5, 5), "overlayfs needs"),
        (MappedRoot(Path("user"), 5, 5), "user namespaces need"),
    ],
)
def test_a_mount_that_fails_names_what_it_needs(
    root: MappedRoot | None, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = list[str]()

    @contextmanager
    def id_mapped(layers: list[Path], *_: object) -> Iterator[list[Path]]:
        mapped.append("mapped")
        try:
            yield layers
        finally:
            mapped.clear()

    monkeypatch.setattr(root_filesystems, "id_mapped", id_mapped)
    monkeypatch.setattr(root_filesystems, "mount", Failing(0, OSError(errno.EPERM, "not permitted")).call(print))
    with pytest.raises(RunFailedError, match=rf"not permitted.*{hint}"):
        root_filesystems._mount_overlay([tmp_path], tmp_path / "target", None, root)
    assert not mapped


def test_the_process_that_unpacks_starts_once_and_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Mock()
    monkeypatch.setattr(subprocess, "Popen", process)
    one = unpacker.Unpacker(tmp_path, UnpackLimits())
    assert one._started() is one._started()
    (command,), options = process.call_args
    assert options["pass_fds"] == [int(command[4])]
    one.close()
    assert [name for name, *_ in process.mock_calls] == ["", "().wait"]


def test_a_tar_is_read_over_the_ends_of_its_pieces() -> None:
    stream = TarStream(PlainBytes(BytesIO(b"abcdef").read), UnpackLimits(), lambda: None)
    pieces = iter([b"ab", b"c", b"def", b""])
    stream._source = cast("Any", SimpleNamespace(next=lambda: next(pieces), consumed=6))
    assert [stream.exactly(size) for size in (1, 3, 0, 2)] == [b"a", b"bcd", b"", b"ef"]
    with pytest.raises(ImageWorkError, match="the tar ends too early"):
        stream.exactly(1)


@pytest.mark.parametrize("step", ["write", "flush"])
def test_a_worker_that_has_ended_is_told_nothing(step: str) -> None:
    """It gives the reason on the other stream."""
    requests = Mock(**{step: Mock(side_effect=BrokenPipeError)})
    worker_process._write(requests, {"operation": "sweep"})
    assert getattr(requests, step).call_count == 1


def test_the_map_of_a_sparse_file_may_be_all_that_is_stored() -> None:
    """Where the file is one hole; not more than that."""
    block = b"0\n".ljust(BLOCK, b"\0")
    assert sparse._map_before_content(Mock(exactly=lambda _: block), BLOCK) == ([], BLOCK)
    with pytest.raises(ImageWorkError, match="the map of a sparse file"):
        sparse._map_before_content(Mock(exactly=lambda _: block), BLOCK - 1)


def test_a_copied_directory_has_the_times_of_its_layers(scratch: Path) -> None:
    (scratch / "layer" / "etc").mkdir(parents=True)
    (scratch / "layer" / "etc" / "file").touch()
    os.utime(scratch / "layer" / "etc", (1, 1))
    copy_layers([scratch / "layer"], scratch / "copy")
    assert (scratch / "copy" / "etc").stat().st_mtime == 1


def test_a_tar_may_end_without_blocks_of_zeros() -> None:
    entries = cast("Any", object.__new__(TarEntries))
    entries._stream = Mock(at_end=lambda: True, exactly=Failing(0).call(print))
    assert entries._header() is None


def test_what_no_image_needs_is_gone_when_the_worker_says_so(scratch: Path) -> None:
    layout, left = StoreLayout(scratch), list[list[Path]]()
    layout.make()
    (layout.trash / "layer").mkdir()
    conversation = Mock(finish=lambda _: left.append(list(layout.trash.iterdir())))
    work._do({"operation": "sweep", "root": str(scratch)}, conversation)
    assert left == [[]]


def test_a_worker_that_was_given_up_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", Failing(0).call(print))
    worker = WorkerProcess("pull", lambda _: None)
    worker.cancel()
    with pytest.raises(DeadlinePassedError):
        worker._start()
