"""The command `cloudcore kubeconfig`: makes kubeconfigs of administrators, and lists them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.ages import utc
from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from modules.processes.cloudcore.issued_kubeconfigs import IssuedKubeconfig


_SERVER: Final = "https://127.0.0.1:6443"
"""The API server's usual port on this machine."""


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("kubeconfig", help="print a kubeconfig of an administrator, for `run --secure-port`")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it there, with mode 0600")
    parser.add_argument(
        "--user", metavar="NAME", default="admin", help="name of the administrator (default %(default)s)"
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        default="",
        help="URL of the secure port, by a name in the server's certificate (default: where the running cloudcore "
        f"listens on this machine; else {_SERVER})",
    )
    parser.add_argument("--list", action="store_true", help="print the certificates that were issued, none is made")
    parser.add_argument(
        "--tls-dir", type=Path, metavar="DIR", help="directory of the authority (default: tls below --root)"
    )
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Make a client certificate, valid for a year, and write the kubeconfig; return the exit status."""
    import msgspec  # noqa: PLC0415 - the other commands do without

    from beehive.clock import RealClock  # noqa: PLC0415
    from beehive.files.durable import replace_file  # noqa: PLC0415
    from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, load_authority  # noqa: PLC0415
    from modules.processes.cloudcore import issued_kubeconfigs  # noqa: PLC0415

    if chosen.list:
        print_lines(table(issued_kubeconfigs.issued(chosen.tls_dir)))
        return ExitCode.OK
    if not 1 <= len(chosen.user) <= 64:
        print_error("cloudcore", "--user has 1 to 64 characters")
        return ExitCode.USAGE
    now = RealClock().now()
    authority = load_authority(AuthorityFiles(chosen.tls_dir), now)
    certificate, key = authority.make_administrator_certificate(chosen.user, now)
    try:
        issued_kubeconfigs.remember(chosen.tls_dir, _issued(certificate, chosen.user))
    except OSError as error:
        print_error("cloudcore", f"cannot write {error.filename or chosen.tls_dir}: {error.strerror}")
        return ExitCode.INTERNAL_ERROR
    server = chosen.server or _running(chosen.socket)
    text = msgspec.yaml.encode(kubeconfig(server, chosen.user, authority.pem.encode(), certificate, key))
    if chosen.output is None:
        print_lines(text.decode().splitlines())
        return ExitCode.OK
    try:
        replace_file(chosen.output, text, 0o600)
    except OSError as error:
        print_error("cloudcore", f"cannot write {chosen.output}: {error.strerror}")
        return ExitCode.INTERNAL_ERROR
    return ExitCode.OK


def _running(socket: Path) -> str:
    """Return the URL of the secure port of the cloudcore that runs, by default the usual one."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415 - `--list` does without it
    from modules.processes.cloudcore.errors import ControlError  # noqa: PLC0415

    try:
        ports = ControlClient(socket).api_ports()
    except ControlError:
        return _SERVER
    if not ports.secure:
        print_error("cloudcore", f"the running cloudcore has no --secure-port; {_SERVER} is in the kubeconfig")
    return ports.secure or _SERVER


def _issued(certificate: bytes, user: str) -> IssuedKubeconfig:
    from cryptography import x509  # noqa: PLC0415 - 17 MB

    from modules.processes.cloudcore.issued_kubeconfigs import IssuedKubeconfig  # noqa: PLC0415

    made = x509.load_pem_x509_certificate(certificate)
    begins, ends = made.not_valid_before_utc.timestamp(), made.not_valid_after_utc.timestamp()
    return IssuedKubeconfig(f"{made.serial_number:X}", user, begins, ends)


def table(issued: Sequence[IssuedKubeconfig]) -> list[str]:
    """Return the lines of the table of issued certificates."""
    rows = [(each.serial, each.user, utc(each.issued_at), utc(each.expires_at)) for each in issued]
    heading = ("SERIAL", "USER", "ISSUED", "EXPIRES")
    return aligned([heading, *rows]) if rows else ["None was issued."]


def kubeconfig(server: str, user: str, authority: bytes, certificate: bytes, key: bytes) -> dict[str, Any]:
    """Return a kubeconfig of one cluster and one user; certificates and key in PEM."""
    credentials = {"client-certificate-data": _data(certificate), "client-key-data": _data(key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "cloudcore", "cluster": {"server": server, "certificate-authority-data": _data(authority)}}
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "cloudcore", "context": {"cluster": "cloudcore", "user": user}}],
        "current-context": "cloudcore",
    }


def _data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
