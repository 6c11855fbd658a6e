"""A container's log on disk: CRI's log format, which kubelet and log collectors read."""

import re

from edged.cri.client import CriClient
from tests.edged.cri.harness import Pods, eventually, shell

LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP]) (.*)$")


def _lines(text: str) -> list[tuple[str, str, str]]:
    """Stream, tag and content of each line; all must be in the format, in the order of their times."""
    found = [LINE.match(line) for line in text.splitlines()]
    assert all(found), text
    times = [match[1] for match in found if match]
    assert times == sorted(times)
    return [(match[2], match[3], match[4]) for match in found if match]


def test_lines_of_both_streams_are_logged_with_time_stream_and_tag(pods: Pods) -> None:
    """Each stream is in its order; two pipes that are read together have none between them."""
    pod = pods.sandbox()
    pods.run(pod, *shell("echo one; echo two >&2; echo; echo ' three  '"))
    lines = _lines(pod.log().read_text())
    assert [line for line in lines if line[0] == "stderr"] == [("stderr", "F", "two")]
    assert [line for line in lines if line[0] == "stdout"] == [
        ("stdout", "F", "one"),
        ("stdout", "F", ""),
        ("stdout", "F", " three  "),
    ]
    assert len(lines) == 4


def test_a_last_line_without_its_end_is_logged(pods: Pods) -> None:
    """Runtimes differ in the tag of such a line: containerd says P, others F."""
    pod = pods.sandbox()
    pods.run(pod, *shell("echo one; printf two"))
    assert [content for _, _, content in _lines(pod.log().read_text())] == ["one", "two"]


def test_a_long_line_is_cut_into_parts_that_make_it_up(pods: Pods) -> None:
    pod = pods.sandbox()
    pods.run(pod, *shell("i=0; while [ $i -lt 5000 ]; do printf '%09d ' $i; i=$((i+1)); done; echo"))
    lines = _lines(pod.log().read_text())
    assert [tag for _, tag, _ in lines] == ["P"] * (len(lines) - 1) + ["F"]
    assert len(lines) > 1
    assert "".join(content for _, _, content in lines) == "".join(f"{n:09d} " for n in range(5000))


def test_after_rotation_the_log_goes_on_in_a_new_file(pods: Pods, client: CriClient) -> None:
    """Nothing written before, between or after is lost."""
    pod = pods.sandbox()
    container = pods.start(pod, *shell("i=0; while :; do echo $i; i=$((i+1)); sleep 0.01; done"))
    eventually(lambda: pod.log().exists() and pod.log().stat().st_size > 0)
    old = pod.log().rename(pod.log().with_suffix(".1"))
    client.reopen_container_log(container)
    eventually(lambda: pod.log().exists() and pod.log().stat().st_size > 0)
    client.stop_container(container, 0)
    written = [int(content) for _, _, content in _lines(old.read_text() + pod.log().read_text())]
    assert written == list(range(len(written)))
