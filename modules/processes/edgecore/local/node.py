"""The edgecore on this machine that the options of a command select."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from modules.apimachinery.printing.terminal import print_error
from modules.cli.rest import RestClient
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands import client
from modules.processes.common.pod_commands.client import NOT_RUNNING, NodeClient
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.location import load_node
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
        for problem in error.problems:
            print_remark(f"error: {problem.render(error.source)}")
        raise SystemExit(ExitCode.CONFIGURATION) from None


def print_remark(text: str) -> None:
    """Print an error or a remark about the result of a command of edgecore on standard error."""
    print_error(NodeClient.program, text)
