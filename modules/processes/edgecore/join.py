"""The command `edgecore join`: fetches the node's first certificate and writes a configuration, as `keadm join` does.

The certificate comes first, so that a refused token changes no file. The token is not written: it is not needed with a
certificate, and would stay valid on the disk.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from beehive import RealClock
from beehive.files.durable import replace_file
from beehive.http.authority import server_of
from beehive.sockets import dialling
from edgehub.certificates.certificate import format_time
from edgehub.errors import CertificateError
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig, Problem, load, verify
from modules.processes.edgecore.config.edgehub import EdgeHub
from modules.processes.edgecore.config.names import HTTPS_URL, NODE_NAME, OCI_ENDPOINT, WEBSOCKET_SERVER
from modules.processes.edgecore.config.value_kinds import SecretText, UnfitError
from modules.processes.edgecore.config.writing import MINIMAL_KEYS, keys_chosen, render
from modules.processes.edgecore.location import FILE_NAME, KUBEEDGE_FILE, NodeLocation, located, run_command
from modules.processes.edgecore.reporting import print_remark, report_problems
from modules.processes.edgecore.runtime_choice import choose_runtime, configured_below, kept_runtime
from modules.processes.edgecore.settings import certificate_settings
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.exclusion import changes_of, held

if TYPE_CHECKING:
    import argparse

    from edgehub.certificates.certificate import Certificate

WEBSOCKET_PORT, HTTPS_PORT, TUNNEL_PORT = 10000, 10002, 10004
"""KubeEdge's."""

LONGEST_TOKEN: Final = 64 * 1024
"""Characters that are read from standard input."""

_CONNECT_SECONDS: Final = 5.0

_ADDRESS: Final = re.compile(r"(?:wss://)?(?P<host>\[[^\]]*\]|[^:/\[\]]+)(?::(?P<port>\d+))?")
_MODE: Final = 0o600
"""Mode of the configuration, because a database URL in it may hold a password."""

_replace = msgspec.structs.replace


class CloudAddress(NamedTuple):
    """Addresses of the cloud."""

    server: str
    """`host:port` of the websocket."""

    certificates: str
    """URL of the server of certificates."""

    @classmethod
    def parse(cls, text: str, certificates: str | None) -> CloudAddress:
        """Parse `HOST[:PORT]` and, if given, the URL.

        Raises:
            ConfigError: an address is wrong.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise _wrong("--cloud", text, "HOST or HOST:PORT is wanted; a cloud without TLS (ws://) is not joined")
        url = certificates or f"https://{match['host']}:{HTTPS_PORT}"
        server = f"{match['host']}:{match['port'] or WEBSOCKET_PORT}"
        try:
            return cls(WEBSOCKET_SERVER.read(server), HTTPS_URL.read(url))
        except UnfitError:
            option = "--http-server" if certificates else "--cloud"
            raise _wrong(option, certificates or text, "a host and a port up to 65535 are wanted") from None


def join(chosen: argparse.Namespace) -> int:
    """Join the cloud and print the result; return the exit status."""
    file = Path(chosen.config or FILE_NAME)
    try:
        file, root = written(chosen.config, chosen.root)
        former = _content(file)
        before = _configured(file, root)
        edge_stream = before.modules.edge_stream.enable or not file.exists()
        if chosen.edge_stream is not None:
            edge_stream = chosen.edge_stream
        cloud = CloudAddress.parse(chosen.cloud, chosen.http_server)
        config = joined(before, cloud, chosen.name, edge_stream=edge_stream)
        verify(config, str(file))
        _check_writable(file)
        with held(changes_of(NodeLocation(file, root), before)):
            if _content(file) != former:
                raise UpgradeError("the configuration has just been changed", str(file), "join again")
            certificate = _certified(config, _token(chosen.token), replace=chosen.replace)
            _write(file, render(config, (*MINIMAL_KEYS, *keys_chosen(config))))
    except ConfigError as error:
        return report_problems(error)
    except CertificateError as error:
        print_remark(f"not joined: {error}{advice_on(error)}")
        return ExitCode.NOT_JOINED
    except UpgradeError as error:
        print_remark(f"not joined: {error}")
        return ExitCode.NOT_JOINED
    except OSError as error:
        print_remark(f"not joined: cannot write {error.filename or file}: {error.strerror}")
        return ExitCode.NOT_JOINED
    sys.stdout.write(
        f"node {config.node_name}: certificate valid until {format_time(certificate.not_after)}\n"
        f"configuration: {file}\n"
        f"{_stream_summary(config)}\n"
        f"next: {run_command('edgecore', chosen)}\n"
    )
    if unreachable := _unreachable(cloud.server):
        print_remark(f"warning: {unreachable}")
    return ExitCode.OK


def _unreachable(server: str) -> str:
    """Return why the websocket's port cannot be connected to, with advice; empty if it can."""
    try:
        dialling.connect(*server_of(server), RealClock(), _CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or str(error)
        return f"nobody answers on {server} ({why}), the cloud's websocket: --cloud HOST:PORT, if it has another port"
    return ""


def written(config: Path | None, root: Path | None) -> tuple[Path, Path | None]:
    """Return the file that `run` reads with the same `--config` and `--root`, and the directory of the process runtime
    for a file that is new; None for a node with containerd and KubeEdge's paths.

    Raises:
        ConfigError: no option was given and the user has no home directory.
    """
    if config is not None:
        return config.absolute(), root
    location = located(None, root)
    if location.file is not None:
        return location.file.absolute(), location.root
    if root is None and os.geteuid() == 0:
        return KUBEEDGE_FILE, None
    assert location.root is not None, "there is no file"  # noqa: S101 - for the type
    return (location.root / FILE_NAME).absolute(), location.root


def joined(
    config: EdgeCoreConfig, cloud: CloudAddress, name: str | None, *, edge_stream: bool = False
) -> EdgeCoreConfig:
    """Return the configuration of a node that has joined a cloud: with its addresses and name, without a token. Pure.

    Args:
        config: the one before.
        cloud: its addresses.
        name: of the node; None for the configured one.
        edge_stream: whether the node dials the stream tunnel.

    Raises:
        ConfigError: the name is not allowed for a node.
    """
    edged = config.modules.edged
    try:
        name = NODE_NAME.read(name) if name else config.node_name
    except UnfitError:
        raise _wrong("--name", name or "", f"{NODE_NAME.expected} is wanted") from None
    hub = _replace(
        config.modules.edge_hub,
        enable=True,
        http_server=cloud.certificates,
        token=SecretText(),
        websocket=_replace(config.modules.edge_hub.websocket, enable=True, server=cloud.server),
    )
    host = cloud.server.rpartition(":")[0]
    modules = _replace(
        config.modules,
        edge_hub=hub,
        edge_stream=_replace(config.modules.edge_stream, enable=edge_stream, server=f"{host}:{TUNNEL_PORT}"),
        edged=_replace(edged, hostname_override=name),
    )
    return _replace(config, modules=modules)


def advice_on(error: CertificateError) -> str:
    """Return advice for an address that does not answer as a server of certificates; empty where the error has the
    advice.
    """
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return "; nobody listens there: does the cloud run with TLS (`cloudcore run --tls`)? --http-server is its URL"
    if isinstance(cause, socket.gaierror):
        return "; there is no such host: --cloud and --http-server name the cloud"
    if "CERTIFICATE_REQUIRED" in str(error):
        return "; that is the websocket's port: the one of certificates is 10002, unless --http-server names another"
    if "UNEXPECTED_EOF" in str(error) or "WRONG_VERSION_NUMBER" in str(error):
        return "; a cloud without TLS hands out no certificates, and a node does not join it: `edgecore run` is enough"
    return ""


def _stream_summary(config: EdgeCoreConfig) -> str:
    stream = config.modules.edge_stream
    if stream.enable:
        return f"logs and commands from the cloud: by a tunnel to {stream.server} (--no-edge-stream: refused)"
    return "logs and commands from the cloud: refused (--edge-stream: allowed)"


def _configured(file: Path, root: Path | None) -> EdgeCoreConfig:
    """Return the configuration in the file, or a new file's. Raises ConfigError if the file is wrong."""
    if file.exists():
        loaded = load(file)
        if loaded.without_effect:
            print_remark(f"{len(loaded.without_effect)} keys of {file} have no effect here and are not in the new one")
        return loaded.config
    if root is None:
        return EdgeCoreConfig.default()
    endpoint, missing = kept_runtime(root), None
    if not endpoint:
        endpoint, missing = choose_runtime(root)
    if missing is not None:
        print_remark(f"containers are not isolated: {missing}; then set containerRuntimeEndpoint: {OCI_ENDPOINT}")
    return configured_below(root, endpoint)


def _certified(config: EdgeCoreConfig, token: str, *, replace: bool) -> Certificate:
    from edgehub.certificates import obtain  # noqa: PLC0415 - not before the arguments are right: it takes 80 ms

    settings = certificate_settings(_with_token(config, token))
    assert settings is not None, "a cloud without a scheme is dialled with TLS"  # noqa: S101 - for the type
    return obtain.join(_replace(settings, replace=replace), RealClock())


def _with_token(config: EdgeCoreConfig, token: str) -> EdgeCoreConfig:
    hub: EdgeHub = _replace(config.modules.edge_hub, token=SecretText(token))
    return _replace(config, modules=_replace(config.modules, edge_hub=hub))


def _token(text: str) -> str:
    return sys.stdin.read(LONGEST_TOKEN).strip() if text == "-" else text


def _check_writable(file: Path) -> None:
    """Raise OSError if the file cannot be written, before the token is used."""
    parent = next(each for each in file.parents if each.exists())
    if not parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent))
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(parent))


def _content(file: Path) -> bytes | None:
    """Return what is in the file; None without one. Raises OSError."""
    with suppress(FileNotFoundError):
        return file.read_bytes()
    return None


def _write(file: Path, text: str) -> None:
    """Write the file atomically and durably; a former one is kept as `FILE.before-join`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(file.stat().st_mode)
        replace_file(file.with_name(file.name + ".before-join"), file.read_bytes(), mode)
    replace_file(file, text.encode(), _MODE)


def _wrong(option: str, value: str, want: str) -> ConfigError:
    return ConfigError("edgecore join", (Problem(path=option, text=f'got "{value}", {want}'),))
