"""The edgecore on this machine that the options of a command select."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from modules.cli.rest import RestClient
from modules.processes.common.pod_commands import client
from modules.processes.common.pod_commands.client import NOT_RUNNING, NodeClient
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.location import load_node
from modules.processes.edgecore.reporting import report_problems
from modules.processes.edgecore.socket_path import socket_path


def node_of(chosen: argparse.Namespace) -> NodeClient:
    """Return the node that the options select.

    Raises:
        ConfigError: the file cannot be read.
    """
    return NodeClient(socket_path(load_node(chosen).config))


def rest_client(chosen: argparse.Namespace) -> RestClient:
    """Return the client of the node's Kubernetes API.

    Raises:
        ConfigError: the node's configuration cannot be read.
    """
    return RestClient(socket_path(load_node(chosen).config), NOT_RUNNING)


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn errors of a command of edgecore into lines on standard error and an exit status."""
    try:
        with client.report_errors(NodeClient.program):
            yield
    except ConfigError as error:
        raise SystemExit(report_problems(error)) from None
