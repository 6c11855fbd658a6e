"""`edgecore images pull`: the progress of a pull on a terminal and elsewhere."""

import io
import json
import re
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.simulation import Simulation
from edged.cri import ImageRef
from edged.errors import EdgedError
from edged.images.progress import PulledLayer, PullProgress
from modules.processes.edgecore.runtime_commands import images
from modules.processes.edgecore.runtime_commands.images import PlainProgress, TerminalProgress, block
from protos.cri.v1 import api_pb2 as cri

NAME = "example.org/app:1"
MEGA = 1_000_000
BEGIN = [["aa", 2 * MEGA, 0, 0], ["bb", 75 * MEGA, 1_500_000, 0]]
LATER = [["aa", 2 * MEGA, 2 * MEGA, 2 * MEGA], ["bb", 75 * MEGA, 75 * MEGA, 9_000_000]]


class _Shown(list[PullProgress]):
    """What a view was told."""

    def show(self, progress: PullProgress) -> None:
        self.append(progress)


def _shown(answers: list[Any], monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> _Shown:
    """What is shown when the runtime answers so to Status, once each, before the pull ends."""
    monkeypatch.setattr(images, "_PROGRESS_SECONDS", 0.0)
    left, pulled, shown = iter(answers), Future[ImageRef](), _Shown()

    def status(*, verbose: bool) -> Any:
        assert verbose
        answer = next(left, None)
        if answer is None:
            pulled.set_exception(error) if error else pulled.set_result(ImageRef("id"))
            raise EdgedError("ask", "it is over")
        return SimpleNamespace(info=answer)

    runtime: Any = SimpleNamespace(status=status)
    images.show_progress(runtime, NAME, pulled, shown)
    return shown


def _pulls(layers: list[list[Any]]) -> dict[str, str]:
    return {"pulls": json.dumps({NAME: layers, "other": [["cc", 5, 5, 5]]})}


def test_progress_of_a_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer is shown, then the whole; not another image's pull, and not before the layers are known."""
    shown = _shown([_pulls([]), _pulls(BEGIN), {}, _pulls(LATER)], monkeypatch)
    assert [(each.fetched, each.unpacked) for each in shown] == [
        (1_500_000, 0),
        (77 * MEGA, 11 * MEGA),
        (77 * MEGA, 77 * MEGA),
    ]


def test_a_failed_pull_is_not_shown_as_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error follows what was shown last."""
    assert [each.fetched for each in _shown([_pulls(BEGIN)], monkeypatch, EdgedError("pull", "no"))] == [1_500_000]


@pytest.mark.parametrize("answer", [{}, {"pulls": ""}, {"pulls": "["}, {"pulls": "[]"}, {"pulls": '{"other": [1]}'}])
def test_a_runtime_that_tells_nothing(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """containerd does not say how far a pull is."""
    assert _shown([answer], monkeypatch) == []


def _progress(layers: list[list[Any]]) -> PullProgress:
    return PullProgress(tuple(PulledLayer(*each) for each in layers))


def test_a_terminal_shows_layers_in_place() -> None:
    """A line for each layer and the sums; the next time the cursor goes up before it."""
    terminal = io.StringIO()
    view = TerminalProgress(terminal, lambda: (80, 24))
    view.show(_progress(BEGIN))
    begin = terminal.getvalue()
    view.show(_progress(LATER))
    later = terminal.getvalue().removeprefix(begin)
    assert begin.replace("\x1b[K", "").replace("\x1b[J", "").replace("\r", "").splitlines() == [
        "aa            waiting          0.0 of 2.0 MB",
        "bb            fetching         1.5 of 75.0 MB",
        "1.5 of 77.0 MB fetched, 0.0 MB unpacked",
    ]
    assert later.startswith("\x1b[3A\raa            unpacked         2.0 of 2.0 MB\x1b[K\n")
    assert "\rbb            unpacking        9.0 of 75.0 MB\x1b[K\n" in later


@pytest.mark.parametrize(("most", "lines"), [(4, 3), (3, 3), (2, 2), (1, 1)])
def test_a_small_terminal(most: int, lines: int) -> None:
    """No more lines than it has; the sums are the last that stays, and layers that are done go first."""
    found = block(_progress(LATER), most)
    assert len(found) == lines
    assert found[-1] == "77.0 of 77.0 MB fetched, 11.0 MB unpacked"
    assert lines != 2 or found[0].startswith("bb")


def test_plain_lines() -> None:
    """A line when a layer is fetched or unpacked, and the sums every ten seconds, without control characters."""
    simulation, output = Simulation(1), io.StringIO()
    view = PlainProgress(output, simulation.clock)
    for layers in (BEGIN, BEGIN, LATER):
        view.show(_progress(layers))
        simulation.run_for(6)
    view.show(_progress(LATER).completed)
    assert output.getvalue().splitlines() == [
        "1.5 of 77.0 MB fetched, 0.0 MB unpacked",
        "aa: unpacked, 2.0 MB",
        "77.0 of 77.0 MB fetched, 11.0 MB unpacked",
        "bb: unpacked, 75.0 MB",
    ]


ID, TAG, OTHER = "sha256:" + "a" * 64, "docker.io/library/busybox:1.36", "docker.io/library/busybox:latest"
LABELS = {"io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "web"}


def _container(name: str) -> cri.Container:
    """A container of the image; the pod has this name of it."""
    image = cri.ImageSpec(image=ID, user_specified_image=name)
    return cri.Container(metadata=cri.ContainerMetadata(name="app"), image=image, image_id=ID, labels=LABELS)


@pytest.mark.parametrize(
    ("tags", "wanted", "used", "containerd", "refusal"),
    [
        ([TAG, OTHER], "busybox:1.36", [], False, ""),
        ([TAG, OTHER], "busybox:1.36", ["busybox"], False, ""),
        ([TAG, OTHER], "busybox:1.36", ["busybox:1.36"], False, "container app of pod shop/web could not start again"),
        ([TAG], "busybox:1.36", ["busybox"], False, "container app of pod shop/web"),
        ([TAG, OTHER], ID, ["busybox:1.36"], False, "container app of pod shop/web"),
        ([TAG, OTHER], ID, [], False, ""),
        ([TAG, OTHER], "busybox:1.36", [], True, "ctr --namespace k8s.io images rm docker.io/library/busybox:1.36"),
        ([TAG, OTHER], ID, [], True, ""),
    ],
)
def test_no_container_loses_its_image(
    tags: list[str], wanted: str, used: list[str], containerd: bool, refusal: str
) -> None:
    image, containers = cri.Image(id=ID, repo_tags=tags), map(_container, used)
    if not refusal:
        images.check_removal(image, wanted, containers, removes_all_names=containerd)
        return
    with pytest.raises(EdgedError, match=re.escape(refusal)):
        images.check_removal(image, wanted, containers, removes_all_names=containerd)


def test_a_removal_prints_the_removed_names() -> None:
    before = cri.Image(id=ID, repo_tags=[TAG, OTHER])
    after = cri.Image(id=ID, repo_tags=[OTHER])
    assert images.removed(before, after) == [f"untagged: {TAG}", f"kept: {ID}, which is {OTHER}"]
    assert images.removed(before, None) == [f"untagged: {TAG}", f"untagged: {OTHER}", f"deleted: {ID}"]
