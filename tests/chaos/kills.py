"""Kills edgecore or cloudcore at random moments under load, while the pods keep running."""

import random
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod, restarts_of, status_of
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest, OciUnderTest, RuntimeUnderTest

PODS: Final = 3
_TIMEOUT: Final = 90.0
_never: Final = Event()


class Killed(NamedTuple):
    """Result of a campaign whose invariants have held."""

    what: str
    seed: int
    kills: int
    versions: int

    def __str__(self) -> str:
        return (
            f"{self.what}, seed {self.seed}: {self.kills} kills, {self.versions} versions of every object: none lost, "
            "no pod restarted"
        )


def run(seed: int, kills: int, *, cloud: bool = False, oci: bool = False) -> Killed:
    """Kill edgecore (or cloudcore) so many times while a configmap and the pods that mount it change.

    Args:
        seed: of the moments.
        kills: how many.
        cloud: whether cloudcore is killed.
        oci: whether the pods are OCI containers, not processes.

    Raises:
        AssertionError: a container was restarted or replaced, a change was lost, the node did not come back, or
            something is left over at the end.
    """
    with OciUnderTest() if oci else nullcontext(EmbeddedUnderTest()) as runtime:
        return _run(runtime, seed, kills, cloud=cloud)


def _run(runtime: RuntimeUnderTest, seed: int, kills: int, *, cloud: bool) -> Killed:
    draw = random.Random(f"{seed} kills")  # noqa: S311 - reproducible on purpose
    machine = Machine(runtime)
    try:
        machine.start()
        machine.cloud.apply(config_map("settings", key="0"), *_pods(0))
        before = {f"p{number}": _identity(machine.cloud.pods.wait(f"p{number}", is_ready)) for number in range(PODS)}
        version = 0
        for _ in range(kills):
            for _ in range(draw.randint(1, 3)):
                version += 1
                machine.cloud.apply(config_map("settings", key=str(version)), *_pods(version))
                _never.wait(draw.uniform(0.0, 0.1))
            _never.wait(draw.choice((0.0, 0.05, 0.5, 1.5)) * draw.random())
            _kill(machine, cloud=cloud)
        _check(machine, before, version)
        return Killed(f"{'cloudcore' if cloud else 'edgecore'} on {runtime.endpoint}", seed, kills, version)
    except BaseException:
        print(machine.report())  # noqa: T201 - a campaign's only witness
        raise
    finally:
        machine.close()


def _kill(machine: Machine, *, cloud: bool) -> None:
    process = machine.cloud if cloud else machine.edge.process
    assert process.runs, f"it has ended by itself\n{process.tail()}"
    if cloud:
        machine.cloud.kill()
        machine.cloud.start()
    else:
        machine.edge.kill()
        machine.start_edge()


def _check(machine: Machine, before: dict[str, tuple[str, int]], version: int) -> None:
    """Assert that files and cloud have the last version, and that the containers are still the first ones."""
    for name in before:
        made = machine.cloud.pods.wait(name, is_ready)
        file = machine.edge.volume(made, "configmap", "settings") / "key"
        wait_until(lambda file=file: text_of(file) == str(version), f"{name} has version {version}", _TIMEOUT)  # type: ignore[misc]
    wait_until(
        lambda: (
            {name: _annotation(one) for name, one in machine.edge.pods().items()} == dict.fromkeys(before, str(version))
        ),
        f"the node has version {version} of every pod",
        _TIMEOUT,
    )
    after = {name: _identity(machine.cloud.get("Pod", name)) for name in before}
    assert after == before, "a container was made anew"


def _pods(version: int) -> list[JsonObject]:
    return [pod_of_version(f"p{number}", version) for number in range(PODS)]


def pod_of_version(name: str, version: int) -> JsonObject:
    """Return a pod with a volume of the ConfigMap `settings`, whose annotation names a version."""
    made = pod(
        name,
        container(volumeMounts=[mount("settings", "/settings")]),
        volumes=({"name": "settings", "configMap": {"name": "settings"}},),
    )
    made["metadata"]["annotations"] = {"version": str(version)}
    return made


def _identity(obj: JsonObject) -> tuple[str, int]:
    return str(status_of(obj)["containerID"]), restarts_of(obj)


def _annotation(obj: JsonObject) -> str:
    return str((obj["metadata"].get("annotations") or {}).get("version"))


def text_of(file: Path) -> str:
    """Return what a file has, or nothing without one."""
    return file.read_text() if file.exists() else ""
