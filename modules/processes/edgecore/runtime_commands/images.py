"""`edgecore images`: talks to the container runtime of the node; one inside edgecore must run for it."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from beehive.clock import RealClock
from edged.cri import CriClient, ImageRef
from edged.errors import EdgedError
from edged.images.progress import PullProgress, progress_of
from modules.processes.edgecore.backup.commands import reporting
from modules.processes.edgecore.runtime_commands.connection import config_of, connected
from modules.processes.edgecore.runtime_commands.pull_progress import PlainProgress, ProgressView, TerminalProgress
from modules.tools.printing.terminal import print_lines
from protos.cri.v1 import api_pb2 as cri

if TYPE_CHECKING:
    import argparse

_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.zst")
"""Endings of archives that the runtime imports."""
_PROGRESS_SECONDS: Final = 0.5
_ID_LETTERS: Final = 12


@reporting("edgecore")
def listing(chosen: argparse.Namespace) -> None:
    """Print the images: names, id and bytes."""
    with connected(config_of(chosen)) as runtime:
        _print(list(runtime.list_images()))


@reporting("edgecore")
def pull(chosen: argparse.Namespace) -> None:
    """Pull an image; show on standard error how far it is, if the runtime says so."""
    view = TerminalProgress(sys.stderr) if sys.stderr.isatty() else PlainProgress(sys.stderr, RealClock())
    with connected(config_of(chosen)) as runtime, ThreadPoolExecutor(1) as threads:
        pulled = threads.submit(runtime.pull_image, cri.ImageSpec(image=chosen.image))
        show_progress(runtime, chosen.image, pulled, view)
        print_lines([str(pulled.result())])


def show_progress(runtime: CriClient, image: str, pulled: Future[ImageRef], view: ProgressView) -> None:
    """Show how far a pull is, again and again, until it has ended."""
    latest: PullProgress | None = None
    while not wait([pulled], _PROGRESS_SECONDS).done:
        try:
            progress = progress_of(image, runtime.status(verbose=True).info)
        except EdgedError:
            continue
        if progress is not None:
            latest = progress
            view.show(latest)
    if latest is not None and pulled.exception() is None:
        view.show(latest.completed)


@reporting("edgecore")
def remove(chosen: argparse.Namespace) -> None:
    """Remove an image."""
    with connected(config_of(chosen)) as runtime:
        if runtime.image_status(cri.ImageSpec(image=chosen.image)) is None:
            raise EdgedError("find the image", chosen.image, "`edgecore images list` shows all")
        runtime.remove_image(cri.ImageSpec(image=chosen.image))


@reporting("edgecore")
def import_archive(chosen: argparse.Namespace) -> None:
    """Put an archive where the OCI runtime imports it: at once if it runs, otherwise at its next start."""
    config = config_of(chosen)
    if not config.uses_oci_runtime:
        hint = "containerd: ctr --namespace k8s.io images import FILE; Docker: docker load --input FILE"
        raise EdgedError("import images", "only embedded://oci takes archives this way", hint)
    directory = config.image_archives
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / f".{chosen.file.name}.new"
    shutil.copyfile(chosen.file, made)
    name = chosen.file.name if chosen.file.name.endswith(_ARCHIVES) else f"{chosen.file.name}.tar"
    os.replace(made, directory / name)  # noqa: PTH105 - says what it does
    with connected(config) as runtime:
        _print(list(runtime.list_images()))


@reporting("edgecore")
def export_archive(chosen: argparse.Namespace) -> None:
    """Write an image of the OCI runtime, which need not run, to an archive."""
    config = config_of(chosen)
    if not config.uses_oci_runtime:
        hint = "containerd: ctr --namespace k8s.io images export FILE IMAGE; Docker: docker save --output FILE IMAGE"
        raise EdgedError("export an image", "only embedded://oci has a store of edgecore's own", hint)
    from edged.embedded.errors import EmbeddedRuntimeError  # noqa: PLC0415 - the other commands talk to any runtime
    from edged.oci.engine import IMAGES  # noqa: PLC0415
    from edged.oci.images import export_image  # noqa: PLC0415

    try:
        export_image(config.embedded_runtime_root / IMAGES, chosen.image, chosen.file)
    except EmbeddedRuntimeError as error:
        raise EdgedError(error.attempt, error.reason, error.hint) from error


def _print(images: list[cri.Image]) -> None:
    rows = [
        (name, image.id.removeprefix("sha256:")[:_ID_LETTERS], f"{image.size}")
        for image in images
        for name in (list(image.repo_tags) or list(image.repo_digests) or ["<none>"])
    ]
    width = max((len(name) for name, *_ in rows), default=5)
    lines = [f"{name:<{width}}  {key:<{_ID_LETTERS}}  {size:>12}" for name, key, size in sorted(rows)]
    print_lines([f"{'IMAGE':<{width}}  {'ID':<{_ID_LETTERS}}  {'BYTES':>12}", *lines])
