"""A pod's life on a node in virtual time, where its containers' own wishes decide."""

from pathlib import Path
from typing import Any

from edged.api import to_value
from tests.edged.conftest import Bench, pod


def container(name: str = "main", *command: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1.36", "command": list(command or ("sleep", "inf")), **fields}


def status_of(bench: Bench, name: str = "main", kind: str = "containerStatuses") -> dict[str, Any]:
    """The status of a container as the node serves it."""
    [web] = [pod for pod in bench.snapshots.pods if pod.metadata.name == "web"]
    statuses: list[dict[str, Any]] = to_value(web.status)[kind]
    return next(each for each in statuses if each["name"] == name)


def test_the_log_says_the_last_words_of_a_container_that_failed_without(bench: Bench) -> None:
    bench.start()
    wanted = container(terminationMessagePath="/dev/x", terminationMessagePolicy="FallbackToLogsOnError")
    bench.tell("insert", pod(containers=[wanted], restartPolicy="Never"))
    [running] = bench.runtime.containers.values()
    log = Path(running.log_path)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("2026-11-20T01:54:50Z stdout F preparing\n2026-11-20T01:54:51Z stderr F it broke\n")
    bench.runtime.end("main", 1)
    bench.run(1.5)
    assert status_of(bench)["state"]["terminated"]["message"] == "preparing\nit broke\n"


def test_a_rule_of_a_container_starts_it_again_in_a_pod_that_never_does(bench: Bench) -> None:
    """For the code that it names; another code ends it, and with it the pod."""
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    main = container(restartPolicy="Never", restartPolicyRules=[rule])
    bench.start()
    bench.tell("insert", pod(containers=[main], restartPolicy="Never"))
    bench.runtime.end("main", 42)
    bench.run(2)
    assert bench.runtime.running() == ["main"]
    assert (status_of(bench)["restartCount"], bench.meta.phases("web")[-1]) == (1, "Running")
    bench.runtime.end("main", 7)
    bench.run(2)
    assert (bench.runtime.running(), bench.meta.phases("web")[-1]) == ([], "Failed")


def test_a_container_that_never_restarts_leaves_the_others_running(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod(containers=[container(), container("once", "exit", "3", restartPolicy="Never")]))
    bench.run(60)
    assert bench.runtime.running() == ["main"]
    assert status_of(bench, "once")["state"]["terminated"]["exitCode"] == 3
    assert bench.meta.phases("web")[-1] == "Running"


def test_a_pod_that_failed_only_by_back_off_is_tried_again_by_itself(bench: Bench) -> None:
    """No message, no relist that sees a change: the back-off alone wakes it, until ten good minutes forgive it."""
    bench.start()
    bench.tell("insert", pod())

    def ends_and_comes_back() -> float:
        bench.runtime.end("main", 1)
        begin = bench.bee.clock.monotonic()
        while bench.runtime.running() != ["main"]:
            bench.run(0.5)
        return bench.bee.clock.monotonic() - begin

    waits = [ends_and_comes_back() for _ in range(4)]
    assert [round(wait, -1) for wait in waits] == [0, 10, 20, 40]
    bench.run(610)
    assert ends_and_comes_back() < 2
    assert 9 < ends_and_comes_back() < 12
