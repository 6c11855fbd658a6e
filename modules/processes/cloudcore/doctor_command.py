"""The command `cloudcore doctor`: gathers facts about a cloudcore, checks them, and prints the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.cloud.coordination import lease_settings
from modules.cloud.storage.database import IN_MEMORY
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

    from modules.processes.cloudcore.doctor_checks import CloudFacts, DatabaseServer

_CERTIFICATES: Final = ("ca.crt", "server.crt")
_LARGEST: Final = 64 * 1024


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("doctor", help="examine cloudcore, its certificates, its nodes and their pods")
    parser.add_argument("--json", action="store_true", help="print JSON for programs: check, level, text, hint")
    parser.add_argument(
        "--tls-dir", type=Path, metavar="DIR", help="directory of the authority (default: tls below --root)"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="examine this cluster and the rights in it, too"
    )
    parser.add_argument(
        "--context", default="", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )
    parser.add_argument("--in-cluster", action="store_true", help="examine the cluster of the pod")
    parser.add_argument("--database", metavar="FILE|URL", help="the same as of `cloudcore run`")
    parser.add_argument(
        "--state", choices=("database", "cluster"), default="database", help="the same as of `cloudcore run`"
    )
    parser.add_argument(
        "--lease-namespace", metavar="NAME", default=lease_settings.NAMESPACE, help="the same as of `cloudcore run`"
    )
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Print a line for each check; exit status UNWELL if one has failed."""
    from modules.processes.cloudcore.doctor_checks import check_cloud  # noqa: PLC0415 - the command line is quick
    from modules.processes.common.doctor.check_result import Level, print_results  # noqa: PLC0415

    results = check_cloud(gathered(chosen.socket, chosen.database or IN_MEMORY, chosen.tls_dir))
    if chosen.kubeconfig or chosen.in_cluster:
        from modules.processes.cloudcore.cluster_checks import check_cluster  # noqa: PLC0415
        from modules.processes.cloudcore.cluster_facts import cluster_facts  # noqa: PLC0415

        keeps_state = chosen.state == "cluster"
        found = cluster_facts(chosen.kubeconfig, chosen.context, chosen.lease_namespace, keeps_state=keeps_state)
        results += check_cluster(found, keeps_state=keeps_state)
    print_results(results, as_json=chosen.json)
    return ExitCode.UNWELL if any(each.level is Level.FAILED for each in results) else ExitCode.OK


def gathered(socket: Path, database: str, tls: Path) -> CloudFacts:
    """Return the facts about the cloudcore with a control socket.

    Args:
        socket: the control socket.
        database: file or URL.
        tls: directory of the certificate authority.

    Raises:
        ControlError: cloudcore ends meanwhile, or does not answer.
    """
    import msgspec  # noqa: PLC0415

    from beehive.clock import RealClock  # noqa: PLC0415
    from modules.apimachinery.structural_schema.rules import has_validations  # noqa: PLC0415
    from modules.cli.rest import RestClient  # noqa: PLC0415
    from modules.cloud.messages import LinkQuery  # noqa: PLC0415
    from modules.insight.fleet.jobs import jobs_of  # noqa: PLC0415
    from modules.page.devices import DeviceReader  # noqa: PLC0415
    from modules.page.jobs import JobReader  # noqa: PLC0415
    from modules.page.workloads import read_lacks  # noqa: PLC0415
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415
    from modules.processes.cloudcore.doctor_checks import CloudFacts  # noqa: PLC0415
    from modules.processes.cloudcore.errors import ApiRefusedError  # noqa: PLC0415
    from modules.processes.cloudcore.starting import running  # noqa: PLC0415

    process, clock = running(socket), RealClock()
    facts = CloudFacts(
        now=clock.now(), process=process, socket=str(socket), free_bytes=_free_bytes(database),
        database=_database_server(database), certificates=_certificates(tls),
    )  # fmt: skip
    if not process:
        return facts
    client = ControlClient(socket)
    facts = msgspec.structs.replace(facts, audit=client.audit())
    status, body = client.request("GET", "/readyz")
    unready = "" if status == 200 else body.decode(errors="replace").strip()
    try:
        nodes, pods, definitions = map(client.objects, ("Node", "Pod", "CustomResourceDefinition"))
    except ApiRefusedError as error:
        return msgspec.structs.replace(facts, unready=unready, unanswered=error.hint)
    found, cloudcores, api = client.connections(), client.cloudcores(), RestClient(socket)
    return msgspec.structs.replace(
        facts,
        unready=unready,
        nodes=nodes,
        pods=pods,
        unevaluated=[each["metadata"]["name"] for each in definitions if has_validations(each)],
        devices=DeviceReader(api, clock).facts()[0],
        lacks=read_lacks(api),
        jobs=jobs_of(
            JobReader(api, clock).rows({one.node for one in found.nodes} | cloudcores.elsewhere().keys())
        ).rows,
        connections=found.nodes,
        refused={each.node: each.why for each in found.refused},
        sessions=client.links(LinkQuery(newest_only=True)),
        cloudcores=cloudcores,
    )


def _free_bytes(database: str) -> int | None:
    """Return the bytes that are free where an SQLite file is, or will be; None for another database."""
    import shutil  # noqa: PLC0415

    directory = Path(database).absolute().parent
    return None if "://" in database or not directory.is_dir() else shutil.disk_usage(directory).free


def _database_server(database: str) -> DatabaseServer | None:
    """Return whether the server of a database answers, and its version; None for an SQLite file."""
    if "://" not in database or database.startswith("sqlite"):
        return None
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from modules.cloud.storage.database.engine import is_local_or_verified, make_engine, shown, url_of  # noqa: PLC0415
    from modules.processes.cloudcore.doctor_checks import DatabaseServer  # noqa: PLC0415

    url = url_of(database)
    engine = make_engine(url)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
            is_verified = is_local_or_verified(connection)
        version = tuple(engine.dialect.server_version_info or ())
        return DatabaseServer(shown(url), engine.dialect.name, version, is_verified)
    except SQLAlchemyError as error:
        lines = str(getattr(error, "orig", None) or error).strip().splitlines()
        return DatabaseServer(shown(url), engine.dialect.name, error=lines[0] if lines else type(error).__name__)
    finally:
        engine.dispose()


def _certificates(directory: Path) -> dict[str, float | None]:
    """Return the end of each certificate in the authority's directory, or None if it cannot be read."""
    found = {directory / name for name in _CERTIFICATES if (directory / name).is_file()}
    if not found:
        return {}
    from cryptography import x509  # noqa: PLC0415 - 17 MB

    ends: dict[str, float | None] = {}
    for path in found:
        try:
            with path.open("rb") as file:
                certificate = x509.load_pem_x509_certificate(file.read(_LARGEST))
        except (OSError, ValueError):
            ends[str(path)] = None
        else:
            ends[str(path)] = certificate.not_valid_after_utc.timestamp()
    return ends
