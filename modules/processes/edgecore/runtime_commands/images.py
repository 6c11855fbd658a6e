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
from edged.images.names import listed_name
from edged.images.progress import PullProgress, progress_of
from edged.pods.labels import POD_NAME, POD_NAMESPACE
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.runtime_commands.connection import config_of, connected
from modules.processes.edgecore.runtime_commands.pull_progress import PlainProgress, ProgressView, TerminalProgress
from modules.runtimes.oci.images.names import ONE_NAME
from modules.tools.printing.terminal import print_lines
from protos.cri.v1 import api_pb2 as cri

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.zst")
"""Endings of archives that the runtime imports."""
_PROGRESS_SECONDS: Final = 0.5
_ID_LETTERS: Final = 12


@reporting_errors
def listing(chosen: argparse.Namespace) -> None:
    """Print the images: names, id and bytes."""
    with connected(config_of(chosen)) as runtime:
        _print(list(runtime.list_images()))


@reporting_errors
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


@reporting_errors
def remove(chosen: argparse.Namespace) -> None:
    """Remove a name of an image, or the image, and print which of them it was."""
    spec = cri.ImageSpec(image=chosen.image)
    with connected(config_of(chosen)) as runtime:
        image = runtime.image_status(spec)
        if image is None:
            raise EdgedError("find the image", chosen.image, "`edgecore images list` shows all")
        name = runtime.version().runtime_name
        check_removal(image, chosen.image, runtime.list_containers(), removes_all_names=name == "containerd")
        runtime.remove_image(cri.ImageSpec(image=chosen.image, annotations={ONE_NAME: ""}))
        print_lines(removed(image, runtime.image_status(cri.ImageSpec(image=image.id))))


def check_removal(
    image: cri.Image, wanted: str, containers: Iterable[cri.Container], *, removes_all_names: bool
) -> None:
    """Check that no container loses its image: it could not start again without a registry.

    Args:
        image: the image.
        wanted: its name or id that is to be removed.
        containers: all of the node.
        removes_all_names: whether the runtime removes all names of an image where one is asked for.

    Raises:
        EdgedError: the removal is refused.
    """
    name = listed_name(wanted)
    others = [tag for tag in image.repo_tags if tag != name] if name in image.repo_tags else []
    if others and removes_all_names:
        hint = f"ctr --namespace k8s.io images rm {name} removes this one; the id {image.id} removes all"
        raise EdgedError("remove one of several names: containerd removes all", ", ".join(image.repo_tags), hint)
    for each in containers:
        used = {each.image_id, each.image_ref, *map(listed_name, (each.image.image, each.image.user_specified_image))}
        is_lost = name in used if others else used & {image.id, *image.repo_tags, *image.repo_digests}
        if is_lost:
            user = f"{each.labels.get(POD_NAMESPACE, '')}/{each.labels.get(POD_NAME, '')}"
            hint = f"container {each.metadata.name} of pod {user} could not start again: delete the pod first"
            raise EdgedError("remove an image in use", wanted, hint)


def removed(before: cri.Image, after: cri.Image | None) -> list[str]:
    """Return what a removal did, line by line."""
    left = [] if after is None else [*after.repo_tags, *after.repo_digests]
    lines = [f"untagged: {name}" for name in (*before.repo_tags, *before.repo_digests) if name not in left]
    if after is None:
        return [*lines, f"deleted: {before.id}"]
    return [*lines, f"kept: {before.id}, which is {', '.join(after.repo_tags) or 'in use'}"]


@reporting_errors
def import_archive(chosen: argparse.Namespace) -> None:
    """Put an archive where the OCI runtime imports it: immediately if it runs, otherwise at its next start."""
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


@reporting_errors
def export_archive(chosen: argparse.Namespace) -> None:
    """Write an image of the OCI runtime, which need not run, to an archive."""
    config = config_of(chosen)
    if not config.uses_oci_runtime:
        hint = "containerd: ctr --namespace k8s.io images export FILE IMAGE; Docker: docker save --output FILE IMAGE"
        raise EdgedError("export an image", "only embedded://oci has a store of edgecore's own", hint)
    from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415 - the other commands talk to any runtime
    from modules.runtimes.oci.driver import IMAGES  # noqa: PLC0415
    from modules.runtimes.oci.images import export_image  # noqa: PLC0415

    try:
        export_image(config.container_runtime_root / IMAGES, chosen.image, chosen.file)
    except ContainerRuntimeError as error:
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
