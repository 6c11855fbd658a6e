"""`edgecore images`: talks to the container runtime of the node; one inside edgecore must run for it."""

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TextIO

from beehive.clock import Clock, RealClock
from beehive.files.durable import make_durable, put_in_place
from edged.cri import ImageRef
from edged.cri.client import CriClient
from edged.errors import EdgedError
from edged.images.progress import PulledLayer, PullProgress, megabytes, progress_of
from edged.pods.labels import POD_NAME, POD_NAMESPACE
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.image_names import listed_name
from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_lines
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.runtime_commands.connection import config_of, connected
from modules.runtimes.oci.images.names import ONE_NAME
from protos.cri.v1 import api_pb2 as cri

_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.zst")
"""Endings of archives that the runtime imports."""
_PROGRESS_SECONDS: Final = 0.5
_ID_LETTERS: Final = 12

_LINE_SECONDS: Final = 10.0
"""Between two plain lines about the whole pull."""
_KEPT_LINES: Final = 2
"""Lines of the terminal that stay: the command, and the cursor's line."""


@reporting_errors
def listing(chosen: argparse.Namespace) -> None:
    """Print the images: names, id and bytes."""
    with connected(config_of(chosen), chosen.socket) as runtime:
        _print(list(runtime.list_images()))


class ProgressView(Protocol):
    """A view of how far a pull is."""

    def show(self, progress: PullProgress) -> None:
        """Show the current progress."""


class _Size(NamedTuple):
    columns: int
    lines: int


class TerminalProgress:
    """The progress on a terminal: a line for each layer and a last one with the sums, rewritten in place.

    Args:
        terminal: takes control sequences.
        size: returns the terminal's columns and lines at each time.
    """

    def __init__(self, terminal: TextIO, size: Callable[[], tuple[int, int]] = shutil.get_terminal_size) -> None:
        self._terminal = terminal
        self._size = size
        self._shown = 0

    def show(self, progress: PullProgress) -> None:
        """Replace the shown progress."""
        size = _Size(*self._size())
        lines = block(progress, max(1, size.lines - _KEPT_LINES))
        up = f"\x1b[{self._shown}A" if self._shown else ""
        self._terminal.write(up + "".join(f"\r{line[: max(1, size.columns - 1)]}\x1b[K\n" for line in lines) + "\x1b[J")
        self._terminal.flush()
        self._shown = len(lines)


class PlainProgress:
    """Lines of progress: one when a layer is fetched or unpacked, and one about the whole pull every ten seconds.

    Args:
        output: takes lines.
        clock: for the ten seconds.
    """

    def __init__(self, output: TextIO, clock: Clock) -> None:
        self._output = output
        self._clock = clock
        self._states: dict[str, str] = {}
        self._due = clock.monotonic()

    def show(self, progress: PullProgress) -> None:
        """Write a line for each layer that has changed its state, and now and then the total."""
        lines = list(self._changes(progress.layers))
        now = self._clock.monotonic()
        if now >= self._due:
            lines.append(str(progress))
            self._due = now + _LINE_SECONDS
        self._output.write("".join(f"{line}\n" for line in lines))
        self._output.flush()

    def _changes(self, layers: Sequence[PulledLayer]) -> Iterator[str]:
        for each in layers:
            state = state_of(each)
            if state in (_FETCHED, _DONE) and self._states.get(each.name) != state:
                self._states[each.name] = state
                yield f"{each.name}: {state}, {megabytes(each.size)} MB"


_FETCHED: Final = "fetched"
_DONE: Final = "unpacked"


def state_of(layer: PulledLayer) -> str:
    """Return the state of a layer."""
    if layer.size == layer.fetched == layer.unpacked:
        return _DONE
    if layer.unpacked:
        return "unpacking"
    if layer.fetched == layer.size:
        return _FETCHED
    return "fetching" if layer.fetched else "waiting"


def block(progress: PullProgress, most: int) -> list[str]:
    """Return the lines of a terminal, `most` of them: the layers, without the unpacked ones if there are too many, and
    the sums.
    """
    room = most - 1
    working = [each for each in progress.layers if state_of(each) != _DONE]
    shown = list(progress.layers) if len(progress.layers) <= room else working[:room]
    return [*map(_layer_line, shown), str(progress)]


def _layer_line(layer: PulledLayer) -> str:
    count = layer.unpacked if layer.unpacked else layer.fetched
    return f"{layer.name:<12}  {state_of(layer):<9}  {megabytes(count):>9} of {megabytes(layer.size)} MB"


@reporting_errors
def pull(chosen: argparse.Namespace) -> None:
    """Pull an image; show its progress on standard error, if the runtime reports it."""
    view = TerminalProgress(sys.stderr) if sys.stderr.isatty() else PlainProgress(sys.stderr, RealClock())
    with connected(config_of(chosen), chosen.socket) as runtime, ThreadPoolExecutor(1) as threads:
        pulled = threads.submit(runtime.pull_image, cri.ImageSpec(image=chosen.image))
        show_progress(runtime, chosen.image, pulled, view)
        print_lines([str(pulled.result())])


def show_progress(runtime: CriClient, image: str, pulled: Future[ImageRef], view: ProgressView) -> None:
    """Show how far a pull is, again and again, until it has ended."""
    latest: PullProgress | None = None
    while not wait([pulled], _PROGRESS_SECONDS).done:
        try:
            progress = progress_of(image, runtime.status(verbose=True).info)
        except AttemptError:
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
    with connected(config_of(chosen), chosen.socket) as runtime:
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
    """Return the effects of a removal, line by line."""
    left = [] if after is None else [*after.repo_tags, *after.repo_digests]
    lines = [f"untagged: {name}" for name in (*before.repo_tags, *before.repo_digests) if name not in left]
    if after is None:
        return [*lines, f"deleted: {before.id}"]
    return [*lines, f"kept: {before.id}, which is {', '.join(after.repo_tags) or 'in use'}"]


@reporting_errors
def import_archive(chosen: argparse.Namespace) -> None:
    """Put an archive where the OCI runtime imports it: immediately if it runs, otherwise at its next start. One that it
    cannot read is removed there again.
    """
    config = config_of(chosen)
    if not config.uses_oci_runtime:
        hint = "containerd: ctr --namespace k8s.io images import FILE; Docker: docker load --input FILE"
        raise EdgedError("import images", "only embedded://oci and `--kind oci` take archives this way", hint)
    from modules.runtimes.oci.archives import last_import  # noqa: PLC0415 - the other commands talk to any runtime
    from modules.runtimes.oci.driver import IMAGES  # noqa: PLC0415

    kept = keep_archive(chosen.file, config.image_archives)
    with connected(config, chosen.socket) as runtime:
        images = list(runtime.list_images())
    done = last_import(kept, config.container_runtime_root / IMAGES)
    if done is None:
        kept.unlink()
        hint = "`--root` names the directory that it was started with"
        raise EdgedError("import the images", f"the runtime does not look into {kept.parent}", hint)
    if done.problem:
        if not done.may_work:
            kept.unlink()
        raise EdgedError("import the images", done.problem)
    _print(images)


def keep_archive(file: Path, directory: Path) -> Path:
    """Copy an archive into the directory of archives, durably: an incomplete one has no name. Return its copy. Raises
    OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / f".{file.name}.new"
    shutil.copyfile(file, made)
    make_durable(made)
    kept = directory / (file.name if file.name.endswith(_ARCHIVES) else f"{file.name}.tar")
    put_in_place(made, kept)
    return kept


@reporting_errors
def export_archive(chosen: argparse.Namespace) -> None:
    """Write an image of the OCI runtime, which need not run, to an archive."""
    config = config_of(chosen)
    if not config.uses_oci_runtime:
        hint = "containerd: ctr --namespace k8s.io images export FILE IMAGE; Docker: docker save --output FILE IMAGE"
        raise EdgedError("export an image", "only embedded://oci and `--kind oci` have a store of edgecore's own", hint)
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
    print_lines(aligned([("IMAGE", "ID", "BYTES"), *sorted(rows)]))
