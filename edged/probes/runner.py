"""Runs one probe, blocking, for the actors of `ProbeWorkerPool`."""

import logging
from typing import Protocol

import msgspec

from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import CriError, DeadlineExceededError
from edged.errors import NetworkError, ShortageError
from edged.probes.model import ProbeKind, ProbeOutcome, ProbeResult
from edged.probes.network import Network
from edged.probes.targets import ExecTarget, GrpcTarget, HttpTarget, Target, TcpTarget

_log = logging.getLogger(__name__)

_TRIES = 3
"""Tries in a row when the probe cannot be made (kubelet's maxProbeRetries)."""


class ProbeAttempt(msgspec.Struct, frozen=True):
    """One probe to make. `seconds` is its time limit."""

    kind: ProbeKind
    container: ContainerId
    target: Target
    seconds: int


class ProbeRunner(Protocol):
    """A runner of one probe."""

    def run(self, attempt: ProbeAttempt) -> ProbeResult:
        """Return the result. It never raises, and blocks for the attempt's seconds or a CRI call's timeout at most."""


class ContainerProbeRunner:
    """`ProbeRunner` over the network and through the container runtime."""

    def __init__(self, runtime: ContainerRuntime, network: Network) -> None:
        self._runtime = runtime
        self._network = network

    def run(self, attempt: ProbeAttempt) -> ProbeResult:
        """As in the contract. A bug here, or a shortage of the agent's own, becomes an UNKNOWN outcome: it must neither
        count against the container nor end edged. (A kubelet without descriptors restarts all containers.)
        """
        try:
            return self._probe(attempt)
        except ShortageError as error:
            return ProbeResult(ProbeOutcome.UNKNOWN, str(error))
        except NetworkError as error:
            return ProbeResult(ProbeOutcome.FAILURE, str(error))
        except Exception as error:  # noqa: BLE001 - see the docstring
            _log.exception("a probe of container %s failed unexpectedly", attempt.container)
            return ProbeResult(ProbeOutcome.UNKNOWN, type(error).__name__)

    def _probe(self, attempt: ProbeAttempt) -> ProbeResult:
        match attempt.target:
            case ExecTarget(command):
                return self._execute(attempt, command)
            case HttpTarget() as target:
                return judge_status(self._network.http_get(target, attempt.seconds))
            case TcpTarget() as target:
                self._network.tcp_connect(target, attempt.seconds)
                return ProbeResult(ProbeOutcome.SUCCESS)
            case GrpcTarget() as target:
                serves = self._network.grpc_serves(target, attempt.seconds)
                return (
                    ProbeResult(ProbeOutcome.SUCCESS)
                    if serves
                    else ProbeResult(ProbeOutcome.FAILURE, "it says that it does not serve")
                )

    def _execute(self, attempt: ProbeAttempt, command: tuple[str, ...]) -> ProbeResult:
        problem = ""
        for _ in range(_TRIES):
            try:
                result = self._runtime.exec_sync(attempt.container, command, attempt.seconds)
            except DeadlineExceededError:
                return ProbeResult(ProbeOutcome.FAILURE, f"the command took longer than {attempt.seconds} s")
            except CriError as error:
                problem = f"{error.operation}: {error.code.name}"
                if not error.retryable:
                    break
            else:
                return judge_exit(result.exit_code)
        return ProbeResult(ProbeOutcome.UNKNOWN, problem)


def judge_exit(code: int) -> ProbeResult:
    """Return the result of a command: success for the exit code 0."""
    return ProbeResult(ProbeOutcome.SUCCESS) if code == 0 else ProbeResult(ProbeOutcome.FAILURE, f"exit code {code}")


def judge_status(status: int) -> ProbeResult:
    """Return the result of an HTTP status: success for 200 to 399, but with a warning for a redirect: none that leads
    to another host is followed, so it says little about the container.
    """
    if 300 <= status < 400:
        return ProbeResult(ProbeOutcome.SUCCESS, f"Probe terminated redirects, HTTP status {status}", warns=True)
    if 200 <= status < 300:
        return ProbeResult(ProbeOutcome.SUCCESS)
    return ProbeResult(ProbeOutcome.FAILURE, f"HTTP probe failed with statuscode: {status}")
