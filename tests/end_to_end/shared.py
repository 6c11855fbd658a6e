"""A machine that serves many tests, one after the other: starting a cloud and a node costs more than most of them."""

from typing import Final

from tests.end_to_end.machine import Machine
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import RuntimeUnderTest
from tests.support.control_client import Delete, Get

_KINDS: Final = ("Pod", "ConfigMap", "Secret", "Event")
"""Kinds of what the tests make that share a machine."""


class SharedMachine:
    """Starts a machine for the first test, and another after a test that has failed.

    Args:
        runtime: nobody else's while the machine runs.
    """

    def __init__(self, runtime: RuntimeUnderTest) -> None:
        self._runtime = runtime
        self._machine: Machine | None = None

    def machine(self) -> Machine:
        """The machine, without a pod. Its node is registered and ready."""
        if self._machine is None:
            self._machine = Machine(self._runtime)
            self._machine.edge.longest_back_off = 1.0
            self._machine.start()
        return self._machine

    def clear(self) -> None:
        """Start what a test has ended, and remove what it has made; in the end the node has nothing of any pod."""
        assert self._machine is not None, "it has not been lent"
        try:
            self._clear(self._machine)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End and remove the machine, if there is one."""
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()

    def _clear(self, machine: Machine) -> None:
        client, edged = machine.cloud.client, machine.edge.root / "edged"
        if not machine.cloud.runs:
            machine.cloud.start()
        if not machine.edge.process.runs:
            machine.start_edge()
        wait_until(lambda: "edgehub_connected 1.0" in machine.edge.get("/metrics")[1], "the node is connected")
        for kind in _KINDS:
            for item in client.run(Get(kind, namespace=None)):
                if item.object is not None:
                    meta = item.object["metadata"]
                    client.run(Delete(kind, meta["name"], meta["namespace"], grace=0 if kind == "Pod" else None))
        wait_until(lambda: not machine.edge.pods(), "the node has no pod")
        wait_until(lambda: not machine.runtime.pods(edged), "the runtime has no pod")
        wait_until(lambda: not list((edged / "pods").glob("*")), "the node has no pod's directory")
        machine.cloud.forget()
