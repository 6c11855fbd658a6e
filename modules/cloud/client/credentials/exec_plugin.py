"""Credential plug-ins: programs that print an ExecCredential (client.authentication.k8s.io v1 and v1beta1)."""

import base64
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.decoding import convert, decode_json
from beehive.files.programs import is_not_found
from beehive.printable import clipped
from modules.apimachinery.conversion import without_null_members
from modules.cloud.client.kubeconfig.reading import KubeconfigError
from modules.cloud.client.transport_errors import no_credentials

if TYPE_CHECKING:
    from beehive.clock import Clock
    from modules.cloud.client.kubeconfig.model import ClusterEntry, Selected

TIMEOUT: Final = 60.0
"""Seconds after which a plug-in is killed, with its children."""
MAX_OUTPUT: Final = 1024 * 1024
"""Bytes of output that are read."""
_GROUP: Final = "client.authentication.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")


class ExecStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The credentials that a plug-in has printed. Its text form contains no secret."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None

    def __repr__(self) -> str:
        return "ExecStatus(…)"

    def expires(self) -> float:
        """Return the seconds since the epoch when the credentials end; infinity without a time.

        Raises:
            ValueError: the time is not RFC 3339.
        """
        if self.expiration_timestamp is None:
            return float("inf")
        moment = datetime.fromisoformat(self.expiration_timestamp)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


class ExecCredential(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The output of a plug-in."""

    api_version: str = ""
    kind: str = ""
    status: ExecStatus | None = None


class ExecPlugin:
    """A kubeconfig's program and its runs, one at a time.

    Args:
        selected: its user has the program.
        clock: for the timeout.
        environment: of this process; the entry's variables are added.

    Raises:
        KubeconfigError: the entry is invalid, or needs a terminal.
    """

    def __init__(self, selected: "Selected", clock: "Clock", environment: Mapping[str, str]) -> None:
        entry = selected.user.exec
        if entry is None or not entry.command:
            raise KubeconfigError(selected.where, "exec has no command")
        if entry.api_version not in _VERSIONS:
            why = f"exec has apiVersion {clipped(entry.api_version)}: use {' or '.join(_VERSIONS)}"
            raise KubeconfigError(selected.where, why)
        if entry.interactive_mode == "Always":
            raise KubeconfigError(selected.where, "exec needs a terminal (interactiveMode: Always): use IfAvailable")
        self._entry = entry
        self._where = f"{selected.where}, exec {entry.command}"
        self._cluster = selected.cluster
        self._clock = clock
        self._environment = {**environment, **{each.name: each.value for each in entry.env or ()}}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = self._is_late = False

    def run(self) -> ExecStatus:
        """Return the credentials that the program prints; waits for its end.

        Raises:
            KubeCredentialsError: it cannot be started, fails, takes too long or prints no credentials.
        """
        self._is_late = False
        process = self._start()
        timer = self._clock.after(TIMEOUT, self._expire)
        try:
            output = self._output(process)
        finally:
            timer.cancel()
        if self._is_late:
            raise no_credentials(self._where, f"it has not ended within {TIMEOUT:g} s{self._hint()}")
        if len(output) > MAX_OUTPUT:
            raise no_credentials(self._where, f"it prints more than {MAX_OUTPUT} bytes{self._hint()}")
        if process.returncode:
            why = f"it ended with {process.returncode}; what it said is in this process's output{self._hint()}"
            raise no_credentials(self._where, why)
        return self._status(output)

    def kill(self) -> None:
        """End the program that runs, and each that is started later."""
        self._is_closed = True
        self._kill()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [self._entry.command, *(self._entry.args or ())]
        environment = {**self._environment, "KUBERNETES_EXEC_INFO": self._information()}
        with self._lock:
            if self._is_closed:
                raise no_credentials(self._where, "the client was closed")
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, start_new_session=True
                )
            except (OSError, ValueError) as error:
                raise no_credentials(self._where, f"{self._not_started(error)}{self._hint()}") from error
            return self._process

    def _output(self, process: "subprocess.Popen[bytes]") -> bytes:
        """Read a program's output, and wait for its end; one that prints too much, or cannot be read, is killed."""
        output = b""
        try:
            if process.stdout is not None:
                with process.stdout:
                    output = process.stdout.read(MAX_OUTPUT + 1)
            if len(output) > MAX_OUTPUT:
                self._kill()
        except BaseException:
            self._kill()
            raise
        finally:
            os.waitid(
                os.P_PID, process.pid, os.WEXITED | os.WNOWAIT
            )  # it can still be killed: its number is not free yet
            with self._lock:
                self._process = None
                process.wait()
        return output

    def _expire(self) -> None:
        self._is_late = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._process is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _status(self, output: bytes) -> ExecStatus:
        try:
            credential = convert(without_null_members(decode_json(output)), ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise no_credentials(self._where, f"it prints no ExecCredential as JSON{self._hint()}") from None
        status = credential.status
        if (credential.kind, credential.api_version) != ("ExecCredential", self._entry.api_version) or status is None:
            why = f"it prints no ExecCredential of {self._entry.api_version} with a status{self._hint()}"
            raise no_credentials(self._where, why)
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise no_credentials(self._where, "it prints a certificate without its key, or a key alone")
        if not (status.token or status.client_certificate_data):
            raise no_credentials(self._where, f"it prints neither a token nor a certificate{self._hint()}")
        return status

    def _not_started(self, error: OSError | ValueError) -> str:
        if isinstance(error, OSError) and is_not_found(error, self._entry.command, os.get_exec_path(self._environment)):
            return "no directory of PATH has it: install it, or write its path"
        if isinstance(error, PermissionError):
            return "permission denied: let this user execute it"
        why = (error.strerror if isinstance(error, OSError) else None) or "it cannot be run"
        return f"{why.lower()}: install it, or fix its path"

    def _hint(self) -> str:
        return f"; {clipped(self._entry.install_hint.strip(), 1000)}" if self._entry.install_hint else ""

    def _information(self) -> str:
        """Return the variable KUBERNETES_EXEC_INFO."""
        spec: dict[str, Any] = {"interactive": False}
        if self._entry.provide_cluster_info:
            spec["cluster"] = self._cluster_information(self._cluster)
        content = {"kind": "ExecCredential", "apiVersion": self._entry.api_version, "spec": spec}
        return msgspec.json.encode(content).decode()

    def _cluster_information(self, cluster: "ClusterEntry") -> dict[str, Any]:
        authority = cluster.certificate_authority_data
        if not authority and cluster.certificate_authority:
            try:
                with Path(cluster.certificate_authority).open("rb") as file:
                    authority = file.read(MAX_OUTPUT)
            except OSError as error:
                why = f"certificate-authority cannot be read: {error.strerror}"
                raise no_credentials(self._where, why) from error
        fields = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(authority).decode(),
            "proxy-url": cluster.proxy_url,
        }
        return {name: value for name, value in fields.items() if value} | {"config": None}
