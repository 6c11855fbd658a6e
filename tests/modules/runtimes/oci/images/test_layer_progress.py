"""The progress of layers while they are fetched and unpacked."""

import os
from pathlib import Path

from modules.runtimes.oci.images.worker.documents import Descriptor
from modules.runtimes.oci.images.worker.layer_progress import LayerReport, LayersProgress
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.unpack import LayerSource, begin_position, position_in, unpack
from tests.modules.runtimes.oci.images.tars import file, tar

MIB = 1024 * 1024


def test_reports_are_few_and_true() -> None:
    """One at the beginning, one for each two megabytes, one at the end; none beyond the size that was announced."""
    told: list[LayerReport] = []
    progress = LayersProgress([Descriptor("", "sha256:aa", 5 * MIB, {}, {})], told.append)
    for _ in range(100):
        progress.add_fetched("sha256:aa", MIB // 8)
    for position in (MIB, 3 * MIB, 2 * MIB, 1 << 60):
        progress.set_unpacked("sha256:aa", position)
    assert [(each.fetched // MIB, each.unpacked // MIB) for each in told] == [
        (0, 0), (2, 0), (4, 0), (5, 0), (5, 3), (5, 5),
    ]  # fmt: skip


def test_thrown_away_bytes_are_taken_back() -> None:
    """A server that sends something else makes a layer start over."""
    told: list[LayerReport] = []
    progress = LayersProgress([Descriptor("", "sha256:aa", 5 * MIB, {}, {})], told.append)
    for count in (4 * MIB, -4 * MIB, -MIB):
        progress.add_fetched("sha256:aa", count)
    assert [each.fetched // MIB for each in told] == [0, 4, 0]


def test_the_position_of_an_unpacking(scratch: Path) -> None:
    """The process that unpacks shows in another how many of the layer's bytes it has read."""
    content = tar(file("data", os.urandom(300_000)))
    path = scratch / "layer"
    path.write_bytes(b"before" + content)
    directory = scratch / "unpacked"
    directory.mkdir()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        source = LayerSource(descriptor, len(b"before"), len(content))
        begin_position(source)
        assert position_in(source) == 0
        unpack(source, directory, [], UnpackLimits())
        assert position_in(source) == len(content)
    finally:
        os.close(descriptor)
