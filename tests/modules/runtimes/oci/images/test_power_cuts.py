"""A power cut at every step of adding an image: what is there afterwards is whole, or not there.

The disk of these tests loses, at the cut, everything that was written and not synced, and keeps every rename: the worst
that a journalling file system does.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore
from modules.runtimes.oci.images.worker import publication
from modules.runtimes.oci.images.worker.digests import chain_ids, sha256_of
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.publication import Disk, Publication
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource, Unpacked


class _PowerCutError(BaseException):
    """The machine has stopped; nothing runs any more."""


class _FailingDisk(Disk):
    """A disk that stops at a step, and loses what was not synced then."""

    def __init__(self, stop_at: int) -> None:
        self._left = stop_at
        self.steps: list[str] = []
        self.unsynced: set[Path] = set()

    def make_directory(self, path: Path) -> None:
        self._step("make")
        super().make_directory(path)

    def write(self, path: Path, content: bytes) -> None:
        self._step("write")
        super().write(path, content)
        self.unsynced.add(path)

    def sync_everything(self, directory: Path) -> None:
        self._step("sync")
        super().sync_everything(directory)
        self.unsynced.clear()

    def publish(self, source: Path, target: Path) -> None:
        self._step("publish")
        super().publish(source, target)
        moved = {each for each in self.unsynced if each.is_relative_to(source)}
        self.unsynced = self.unsynced - moved | {target / each.relative_to(source) for each in moved}

    def sync_directory(self, directory: Path) -> None:
        self._step("names")
        super().sync_directory(directory)

    def lose(self) -> None:
        """Empty the files whose content had not reached the disk."""
        for path in self.unsynced:
            if path.exists():
                path.write_bytes(b"")

    def _step(self, name: str) -> None:
        if self._left == 0:
            raise _PowerCutError
        self._left -= 1
        self.steps.append(name)


def _run(root: Path, stop_at: int, monkeypatch: pytest.MonkeyPatch) -> tuple[_FailingDisk, str]:
    """Add two layers and a blob, and stop; return the disk and the chain id of the upper layer."""
    disk = _FailingDisk(stop_at)

    def unpack(_: LayerSource, directory: Path, lower: Sequence[Path], limits: UnpackLimits) -> Unpacked:
        (directory / "fs").mkdir()
        (directory / "replaced").mkdir()
        (directory / "fs" / "file").write_bytes(b"content")
        disk.unsynced.add(directory / "fs" / "file")
        return Unpacked(diff_ids[len(lower)], 4096, 2)

    diff_ids = [sha256_of(b"one"), sha256_of(b"two")]
    chain = chain_ids(diff_ids)
    layout = StoreLayout(root)
    layout.make()
    monkeypatch.setattr(publication, "unpack", unpack)
    adding = Publication(layout, UnpackLimits(), disk)
    try:
        for number, diff_id in enumerate(diff_ids, 1):
            adding.add_layer(LayerSource(-1, 0, 0), diff_id, chain[:number])
        adding.add_documents({sha256_of(b"config"): b"config"})
        adding.publish()
    except _PowerCutError:
        disk.lose()
    return disk, chain[-1]


def test_images_after_a_power_cut_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each step of adding, whatever is named like a layer or a blob has its content; the rest goes at the start."""
    whole, _ = _run(tmp_path / "whole", 1000, monkeypatch)
    for step in range(len(whole.steps) + 1):
        root = tmp_path / str(step)
        _run(root, step, monkeypatch)
        store = ImageStore(root, RealClock(), root)
        layers = list(store.layout.layers.iterdir())
        assert all((path / "fs" / "file").read_bytes() == b"content" for path in layers)
        assert all((path / "record.json").stat().st_size > 0 for path in layers)
        assert all(path.read_bytes() == b"config" for path in store.layout.blobs.glob("*/*"))
        _, chain_id = _run(root, 1000, monkeypatch)
        assert (store.layout.tree(chain_id) / "file").read_bytes() == b"content"


def test_content_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the steps: one sync for the whole image, then the names."""
    disk, _ = _run(tmp_path, 1000, monkeypatch)
    assert disk.steps == [*["make", "write"] * 2, "write", "sync", *["publish"] * 3, *["names"] * 2]


def test_the_index_names_only_present_images(tmp_path: Path) -> None:
    """It is written when the worker has reported, and replaced as a whole (`beehive.files.durable`)."""
    store = ImageStore(tmp_path, RealClock(), tmp_path)
    store.layout.index.with_name(".index.json.new").write_bytes(b"[")
    assert ImageStore(tmp_path, RealClock(), tmp_path).find("a") is None
