"""HookRunner: runs lifecycle hooks (kubelet's HandlerRunner)."""

import msgspec
from msgspec.structs import replace

from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import CriError, DeadlineExceededError
from edged.errors import HookError, HookInterruptedError, NetworkError, PlainAnswerError, TargetError
from edged.lifecycle.running_grace_periods import GracePeriod
from edged.lifecycle.waits import WaitEndedError, WaitOverError, Waits
from edged.pods.effective_grace_period import SHORTEST_STOP_SECONDS
from edged.pods.model import PodUid
from edged.probes.network import Network
from edged.probes.targets import HOOK_AGENT, HttpTarget, PodAddress, http_target, tcp_target
from modules.apimachinery.types import Container
from modules.apimachinery.types.probes import LifecycleHandler

_LONGEST_REQUEST = 300.0
"""Seconds that an HTTP or TCP hook may take where nothing else limits it. (A kubelet sets no limit.)"""


class HookTarget(msgspec.Struct, frozen=True):
    """The container that a hook belongs to."""

    uid: PodUid
    container: Container
    id: ContainerId
    address: PodAddress


class HookRunner:
    """The runner of containers' hooks, which waits for their end. Blocks; used by pod workers.

    Args:
        runtime: runs commands.
        network: makes HTTP and TCP connections.
        waits: end the wait for a hook when the pod or edged ends.
    """

    def __init__(self, runtime: ContainerRuntime, network: Network, waits: Waits) -> None:
        self._runtime = runtime
        self._network = network
        self._waits = waits

    def run_post_start(self, hook: LifecycleHandler, subject: HookTarget) -> None:
        """Run a postStart hook to its end, however long it takes, or until the pod is ending.

        Raises:
            HookError: the hook failed.
        """
        try:
            if hook.sleep is not None:
                self._waits.pause(hook.sleep.seconds, subject.uid)
            else:
                self._waits.call(lambda: self._run(hook, subject, None), subject.uid)
        except WaitEndedError:
            raise HookInterruptedError(subject.container.name, "the pod or edgecore is stopping") from None

    def run_pre_stop(self, hook: LifecycleHandler, subject: HookTarget, grace_period: GracePeriod) -> None:
        """Run a preStop hook, and wait no longer than the grace period; a command may go on until the kill.

        Raises:
            HookError: the hook failed, or took longer.
        """
        try:
            if hook.sleep is not None:
                self._waits.pause(hook.sleep.seconds, limit=grace_period)
            else:
                seconds = grace_period.stop_timeout() + SHORTEST_STOP_SECONDS
                self._waits.call(lambda: self._run(hook, subject, seconds), limit=grace_period)
        except WaitOverError:
            raise HookError(subject.container.name, "it took longer than the grace period") from None
        except WaitEndedError:
            raise HookInterruptedError(subject.container.name, "edgecore is stopping") from None

    def _run(self, hook: LifecycleHandler, subject: HookTarget, seconds: int | None) -> None:
        """Run a hook with a time limit in seconds. No status of an HTTP response is a failure, as with a kubelet. TCP
        hooks are part of the Kubernetes API, but its kubelets refuse them.
        """
        container = subject.container
        limit = _LONGEST_REQUEST if seconds is None else float(seconds)
        try:
            if hook.exec is not None:
                self._execute(subject, hook.exec.command, seconds or 0)
            elif hook.http_get is not None:
                self._get(http_target(hook.http_get, container, subject.address, HOOK_AGENT), limit)
            elif hook.tcp_socket is not None:
                self._network.tcp_connect(tcp_target(hook.tcp_socket, container, subject.address), limit)
            else:
                raise HookError(container.name, "it has none of exec, httpGet, tcpSocket and sleep")
        except (NetworkError, TargetError) as error:
            raise HookError(container.name, str(error)) from error

    def _get(self, target: HttpTarget, limit: float) -> None:
        """Send a hook's request; without TLS, and then without credentials, to a server that has none: kubelets up to
        1.25 took no notice of the scheme, and later ones try it again so (`isHTTPResponseError`).
        """
        try:
            self._network.http_get(target, limit)
        except PlainAnswerError:
            headers = tuple(each for each in target.headers if each[0].lower() != "authorization")
            self._network.http_get(replace(target, scheme="http", headers=headers), limit)

    def _execute(self, subject: HookTarget, command: tuple[str, ...], seconds: int) -> None:
        name = subject.container.name
        try:
            result = self._runtime.exec_sync(subject.id, command, seconds)
        except DeadlineExceededError:
            raise HookError(name, f"the command took longer than {seconds} s") from None
        except CriError as error:
            raise HookError(name, f"{error.operation}: {error.code.name}") from error
        if result.exit_code != 0:
            raise HookError(name, f"the command ended with exit code {result.exit_code}")
