"""What waits, and why."""

from modules.processes.edgecore.top.spans import Tone, text_of
from modules.processes.edgecore.top.state import HeldMessages, LinkReport, ModuleReport, WorkReport
from modules.processes.edgecore.top.waits import Wait, wait_lines, waits_of
from tests.modules.processes.edgecore.top.made import NOW, READY, condition, ended, look, pod, running, waiting

CRASHER = pod("crasher", waiting("CrashLoopBackOff", "back-off 40s", restarts=4))


def work(**changes: object) -> WorkReport:
    """The queues with pods that are due later."""
    return WorkReport(0, 0, {"uid-default-crasher": 31.0, "uid-default-web": 4.0}, **changes)  # type: ignore[arg-type]


def test_nothing_waits_on_a_node_that_is_well() -> None:
    assert waits_of(look(pod("web", running()), pod("done", ended(), status_phase="Succeeded"), work=work())) == []


def test_a_pod_in_back_off_is_tried_again() -> None:
    """The time comes from the work queue."""
    assert waits_of(look(CRASHER, work=work())) == [
        Wait("default/crasher", "app: CrashLoopBackOff: back-off 40s", 31.0, Tone.BAD)
    ]


def test_a_pull_and_a_probe_end_when_they_end() -> None:
    """Their pods are looked at again, too, but that is not what they wait for."""
    pulling = pod("web", waiting("ContainerCreating", 'Pulling image "big"'), status_phase="Pending")
    unready = pod("web", running(ready=False))
    for made, what in ((pulling, "Pulling image"), (unready, "its probe has not succeeded")):
        (wait,) = waits_of(look(made, work=work()))
        assert (what in wait.what, wait.left, wait.tone) == (True, None, Tone.BUSY)


def test_a_pod_that_ends_has_until_its_deletion_timestamp() -> None:
    ending = pod("web", running())
    ending["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:20Z", "deletionGracePeriodSeconds": 30}
    (wait,) = waits_of(look(ending, work=work()))
    assert (wait.what, wait.left) == ("its containers end, within 30 s", 20.0)


def test_a_sync_that_failed_without_a_word_in_the_status() -> None:
    (wait,) = waits_of(look(pod("web", running()), work=work(failed=("uid-default-web",))))
    assert (wait.what, wait.left) == ("its last sync failed; see edgecore's log", 4.0)


def test_the_node_comes_first_then_the_link_then_the_pods_that_are_tried_soonest() -> None:
    found = waits_of(
        look(
            CRASHER, pod("web", waiting("CreateContainerConfigError", 'configmap "c" not found')),
            conditions=(*READY[1:], condition("Ready", "False", "KubeletNotReady", "no runtime"),
                        condition("DiskPressure", "True", "KubeletHasDiskPressure")),
            modules={"edged": ModuleReport("not ready", "lists pods"), "websocket": ModuleReport("not ready", "down")},
            link=LinkReport(enabled=True, failures=3, why="refused", next_try=2.5, lost_at=NOW - 60),
            held={"state": HeldMessages(3, 1200), "event": HeldMessages(4, 800)},
            work=work(), asked=("default/configmap/c",),
        )
    )  # fmt: skip
    assert [(wait.who, wait.left) for wait in found] == [
        ("node", None), ("node", None), ("edged", None), ("cloud", 2.5), ("outbox", None),
        ("default/web", 4.0), ("default/crasher", 31.0), ("metamanager", None),
    ]  # fmt: skip
    assert [wait.what for wait in found[:5]] == [
        "is not ready: KubeletNotReady: no runtime", "DiskPressure: KubeletHasDiskPressure", "not ready: lists pods",
        "refused", "7 messages (2.0 kB) wait for the cloud",
    ]  # fmt: skip


def test_a_node_without_a_cloud_waits_for_none() -> None:
    assert waits_of(look(link=LinkReport(), held={"state": HeldMessages(1, 1)})) == []


def test_lines_fit_and_are_harmless() -> None:
    """A message of a runtime may have several lines, and sequences that move the cursor."""
    waits = [Wait("default/web", "one\n  two\x1b[2J[red]three[/]" + "x" * 300, 65.0), Wait("a" * 300, "", 0.2)]
    lines = [text_of(line) for line in wait_lines(waits, 80)]
    assert all(len(line) <= 80 for line in lines)
    assert "in 65s  one two\\x1b[2J[red]three[/]x" in lines[0]
    assert lines[1].split()[-1] == "now"
