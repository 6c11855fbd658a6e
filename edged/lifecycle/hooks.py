"""Runs one hook of one container (kubelet's HandlerRunner). Blocks; used by workers."""

from typing import NamedTuple

from edged.api import Container
from edged.api.probes import LifecycleHandler
from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import CriError, DeadlineExceededError
from edged.lifecycle.departures import Departure
from edged.lifecycle.errors import HookError, HookInterruptedError
from edged.lifecycle.waits import WaitEndedError, WaitOverError, Waits
from edged.pods.model import PodUid
from edged.probes.errors import NetworkError, TargetError
from edged.probes.network import Network
from edged.probes.targets import HOOK_AGENT, http_target, tcp_target

_LONGEST_REQUEST = 300.0
"""Seconds that an HTTP or TCP hook may take where nothing else limits it. (A kubelet sets no limit at all.)"""


class Subject(NamedTuple):
    """Whose hook it is."""

    uid: PodUid
    container: Container
    id: ContainerId
    pod_ip: str


class Hooks:
    """See the module's docstring.

    Args:
        runtime: runs commands.
        network: makes requests.
        waits: by which waiting is ended when the pod or edged is.
    """

    def __init__(self, runtime: ContainerRuntime, network: Network, waits: Waits) -> None:
        self._runtime = runtime
        self._network = network
        self._waits = waits

    def after_start(self, hook: LifecycleHandler, subject: Subject) -> None:
        """Run a postStart hook to its end, however long it takes; unless the pod is to end meanwhile.

        Raises:
            HookError: it failed.
        """
        try:
            if hook.sleep is not None:
                self._waits.pause(hook.sleep.seconds, subject.uid)
            else:
                self._waits.call(lambda: self._run(hook, subject, None), subject.uid)
        except WaitEndedError:
            raise HookInterruptedError(subject.container.name, "the pod or edgecore is to end") from None

    def before_stop(self, hook: LifecycleHandler, subject: Subject, departure: Departure) -> None:
        """Run a preStop hook, within the grace period at most.

        Raises:
            HookError: it failed, or took longer.
        """
        try:
            if hook.sleep is not None:
                self._waits.pause(hook.sleep.seconds, limit=departure)
            else:
                seconds = departure.left()
                self._waits.call(lambda: self._run(hook, subject, seconds), limit=departure)
        except WaitOverError:
            raise HookError(subject.container.name, "it took longer than the grace period") from None
        except WaitEndedError:
            raise HookInterruptedError(subject.container.name, "edgecore is to end") from None

    def _run(self, hook: LifecycleHandler, subject: Subject, seconds: int | None) -> None:
        """A status that an HTTP hook is answered with is no failure, as it is none for a kubelet: it asks, and that is
        all. TCP hooks are Kubernetes' in form only, its kubelets refuse them.
        """
        container = subject.container
        limit = _LONGEST_REQUEST if seconds is None else float(seconds)
        try:
            if hook.exec is not None:
                self._execute(subject, hook.exec.command, seconds or 0)
            elif hook.http_get is not None:
                self._network.http_get(http_target(hook.http_get, container, subject.pod_ip, HOOK_AGENT), limit)
            elif hook.tcp_socket is not None:
                self._network.tcp_connect(tcp_target(hook.tcp_socket, container, subject.pod_ip), limit)
            else:
                raise HookError(container.name, "it has none of exec, httpGet, tcpSocket and sleep")
        except (NetworkError, TargetError) as error:
            raise HookError(container.name, str(error)) from error

    def _execute(self, subject: Subject, command: tuple[str, ...], seconds: int) -> None:
        name = subject.container.name
        try:
            result = self._runtime.exec_sync(subject.id, command, seconds)
        except DeadlineExceededError:
            raise HookError(name, f"the command took longer than {seconds} s") from None
        except CriError as error:
            raise HookError(name, f"{error.operation}: {error.code.name}") from error
        if result.exit_code != 0:
            raise HookError(name, f"the command ended with exit code {result.exit_code}")
