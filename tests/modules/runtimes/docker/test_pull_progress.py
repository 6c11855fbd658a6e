"""How far a pull of Docker's is, from the lines of its report."""

import json
from typing import Any

import pytest

from beehive.decoding import decode_json
from edged.images.progress import PulledLayer, progress_of
from modules.runtimes.docker.answers import Progress
from modules.runtimes.docker.images import ReportedLayers
from modules.runtimes.oci.images.pulls import PullsUnderWay

ONE, TWO = "aaaaaaaaaaaa", "bbbbbbbbbbbb"


def _line(status: str, layer: str = ONE, **detail: int) -> Progress:
    text = json.dumps({"status": status, "progressDetail": detail, "progress": "[==>  ]", "id": layer})
    return decode_json(text.encode(), Progress)


def _layers(*lines: Progress) -> list[PulledLayer]:
    """What edged and the command read from the status after these lines."""
    pulls = PullsUnderWay()
    with pulls.one("app:1") as told:
        layers = ReportedLayers(told)
        for line in lines:
            layers.update(line)
        progress = progress_of("app:1", {"pulls": pulls.described()})
    return list(progress.layers) if progress is not None else []


def test_a_layer_is_fetched_and_unpacked() -> None:
    """Bytes as the registry has them; a repeated or earlier number takes nothing back."""
    lines = [_line("Pulling fs layer"), _line("Downloading", current=10, total=100)]
    assert _layers(*lines) == [PulledLayer(ONE, 100, 10, 0)]
    lines += [_line("Downloading", current=60, total=100), _line("Downloading", current=50, total=100)]
    assert _layers(*lines) == [PulledLayer(ONE, 100, 60, 0)]
    lines += [_line("Verifying Checksum")]
    assert _layers(*lines) == [PulledLayer(ONE, 100, 100, 0)]
    lines += [_line("Download complete"), _line("Extracting", current=30, total=100)]
    assert _layers(*lines) == [PulledLayer(ONE, 100, 100, 30)]
    assert _layers(*lines, _line("Pull complete")) == [PulledLayer(ONE, 100, 100, 100)]


def test_layers_side_by_side() -> None:
    """Each has its own state, in Docker's order."""
    lines = [_line("Downloading", TWO, current=1, total=5), _line("Downloading", ONE, current=2, total=7)]
    assert _layers(*lines, _line("Pull complete", TWO)) == [PulledLayer(TWO, 5, 5, 5), PulledLayer(ONE, 7, 2, 0)]


@pytest.mark.parametrize(
    "line",
    [
        _line("Already exists"),
        _line("Pulling fs layer"),
        _line("Waiting"),
        _line("Download complete"),
        _line("Downloading", current=5),
        _line("Downloading", current=5, total=-5),
        _line("Pulling from library/app", "1"),
        _line("Downloading", "", current=5, total=9),
        Progress(status="Digest: sha256:00"),
    ],
)
def test_a_line_without_a_size_tells_nothing(line: Progress) -> None:
    """A layer that is there, one whose size is not known yet, and lines about the image."""
    assert _layers(line) == []


def test_numbers_are_bounded() -> None:
    """By the size of the layer, and layers by number."""
    assert _layers(_line("Downloading", current=50, total=9)) == [PulledLayer(ONE, 9, 9, 0)]
    many: list[Any] = [_line("Downloading", f"{number:012x}", current=1, total=2) for number in range(600)]
    assert len(_layers(*many)) == 500
