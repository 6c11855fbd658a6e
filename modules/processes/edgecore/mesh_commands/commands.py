"""The commands `edgecore services` and `edgecore resolve`."""

import argparse
from collections.abc import Iterator
from typing import Final

from beehive.decoding import decode_json
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.edge.edgemesh.dns.explaining import AskedName, Resolution
from modules.edge.edgemesh.owner import ServicesAnswer, ShownEndpoint, ShownPort, ShownService
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import remark, with_query
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.local.node import node_of, report_errors
from modules.processes.edgecore.socket_path import RESOLVE_PATH, SERVICES_PATH
from modules.processes.edgecore.store_commands.shared import print_table

_UNKNOWN: Final = "the cloud has sent no Services yet; does its dynamicController run, and is there a link?"


def services(chosen: argparse.Namespace) -> int:
    """Print all Services, or one with its endpoints."""
    namespace, slash, name = chosen.service.rpartition("/")
    wanted = (namespace if slash else chosen.namespace) or ("default" if name else "")
    with report_errors():
        query = [(key, value) for key, value in (("namespace", wanted), ("name", name)) if value]
        found = decode_json(node_of(chosen).get(with_query(SERVICES_PATH, query)), ServicesAnswer)
        if name and not found.services:
            raise NodeError("this node knows no such Service", f"{wanted}/{name}", "" if found.is_known else _UNKNOWN)
    if chosen.output:
        print_json(found.services[0] if name else found, indent=2)
        return ExitCode.OK
    for text in (found.problem and f"connections are not carried: {found.problem}", _UNKNOWN * (not found.is_known)):
        if text:
            remark(text)
    if name:
        _print_one(found.services[0])
        return ExitCode.OK
    rows = [
        (
            f"{each.namespace}/{each.name}",
            each.type,
            ",".join(each.addresses) or "-",
            ",".join(_port(port) for port in each.ports) or "-",
            f"{each.used}/{each.number}",
            each.carried_by or "-",
        )
        for each in found.services
    ]
    print_table(("SERVICE", "TYPE", "ADDRESSES", "PORTS", "USED", "BY"), rows)
    return ExitCode.OK


def resolve(chosen: argparse.Namespace) -> int:
    """Print the records of a name; the exit status tells whether it has any."""
    with report_errors():
        query = [("name", chosen.name), ("type", chosen.type), ("namespace", chosen.namespace)]
        path = with_query(RESOLVE_PATH, [each for each in query if each[1]])
        found = decode_json(node_of(chosen).get(path), Resolution)
    is_there = any(each.records for each in found.asked)
    if chosen.output:
        print_json(found, indent=2)
        return ExitCode.OK if is_there else ExitCode.REFUSED
    if found.problem:
        remark(f"pods get no answer: {found.problem}")
    if chosen.verbose or not is_there:
        print_lines(f"{each.name} {each.type}: {_outcome(each)}" for each in found.asked)
    print_lines(_records(found))
    return ExitCode.OK if is_there else ExitCode.REFUSED


def _records(found: Resolution) -> Iterator[str]:
    for asked in found.asked:
        for each in asked.records:
            yield f"{each.name}  {each.ttl} s  {each.type}  {each.value}  ({asked.source})"


def _outcome(asked: AskedName) -> str:
    number = len(asked.records)
    said = f"{number} record{'s' if number != 1 else ''}" if number or asked.code == "NOERROR" else asked.code
    return f"{said}, from {asked.source}"


def _print_one(service: ShownService) -> None:
    addresses = ", ".join((*service.addresses, *service.external)) or "no address"
    by = f"carried by {service.carried_by}" if service.carried_by else service.remark
    print_lines([f"{service.namespace}/{service.name}  {service.type}  {addresses}", by])
    ports = [(_port(each), each.name or "-", each.at or "-") for each in service.ports]
    if ports:
        print_table(("PORT", "NAME", "REACHED AT"), ports)
    print_table(("ENDPOINT", "PORTS", "NODE", "POD", "STATE", "WHY"), map(_endpoint, service.endpoints))
    if service.number > len(service.endpoints):
        print_lines([f"and {service.number - len(service.endpoints)} more"])


def _endpoint(each: ShownEndpoint) -> tuple[str, ...]:
    state = "terminating" if each.terminating else "ready" if each.ready else "not ready"
    ports = ",".join(map(str, each.ports)) or "-"
    return each.address, ports, each.node or "-", each.pod or "-", state, each.reason


def _port(port: ShownPort) -> str:
    node = f":{port.node_port}" if port.node_port else ""
    return f"{port.port}{node}/{port.protocol}"
