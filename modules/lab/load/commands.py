"""`cloudcore load`: puts a load on a running cloud, and removes it."""

import argparse
import asyncio
import resource
import signal
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from beehive.errors import BeehiveError
from beehive.whole_numbers import whole_number
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.cli.rest import RestClient
from modules.lab.load.joining import contexts_of
from modules.lab.load.objects import REASON, LoadObjects, name_of
from modules.lab.load.run import Crowd, LoadPlan
from modules.lab.load.stand_in import Address
from modules.processes.cloudcore.control_client import ControlClient
from modules.processes.cloudcore.errors import ControlError
from modules.processes.common.exit_codes import ExitCode

_MOST_NODES: Final = 5000
_MOST_PODS: Final = 110
"""Of a node, as a kubelet's `maxPods`."""
_TOKEN_SECONDS: Final = 3600.0
_HTTPS_PORT: Final = 10002


def load(chosen: argparse.Namespace) -> int:
    """Run `cloudcore load`."""
    host, _, text = chosen.cloud.rpartition(":")
    port = whole_number(text)
    if not (0 < chosen.nodes <= _MOST_NODES and 0 <= chosen.pods <= _MOST_PODS and 0 <= chosen.silent <= chosen.nodes):
        print_error("cloudcore", f"a load has 1 to {_MOST_NODES} nodes of {_MOST_PODS} pods at most")
        return ExitCode.USAGE
    if not host or port is None or chosen.every <= 0:
        print_error("cloudcore", "--cloud takes HOST:PORT, and --every more than 0s")
        return ExitCode.USAGE
    control = ControlClient(chosen.socket)
    control.cloudcores()  # without a cloudcore there is an error now
    objects = LoadObjects(RestClient(chosen.socket, prints_warnings=False), control)
    if chosen.remove:
        return _remove(objects)
    names = [name_of(number) for number in range(chosen.nodes)]
    _allow_files()
    objects.begin()
    try:
        contexts = _contexts(control, names, chosen.http_server or f"https://{host}:{_HTTPS_PORT}")
        plan = LoadPlan(chosen.pods, chosen.every, chosen.cut, chosen.silent)
        make = partial(
            Crowd, plan, names, Address(host, port), contexts, objects.ready, lambda line: print_lines([line])
        )
        asyncio.run(_run(make, partial(objects.make_pods, names, chosen.pods), chosen.seconds))
    except (OSError, BeehiveError) as error:
        print_error("cloudcore", str(error))
        return ExitCode.INTERNAL_ERROR
    finally:
        _remove(objects)
    return ExitCode.OK


def _remove(objects: LoadObjects) -> int:
    print_lines([f"{objects.remove()} stand-ins are removed, with their pods and records"])
    return ExitCode.OK


def _contexts(control: ControlClient, names: Sequence[str], url: str) -> Sequence[ssl.SSLContext | None]:
    """Return the TLS contexts of the nodes; None for each where the cloud demands no certificates."""
    try:
        token = control.token(_TOKEN_SECONDS, reason=REASON)
    except ControlError:
        print_lines(["this cloud demands no certificates: the stand-ins have none"])
        return [None] * len(names)
    print_lines([f"{len(names)} stand-ins get certificates at {url}"])
    return contexts_of(names, url, token)


async def _run(make: Callable[[], Crowd], make_pods: Callable[[], None], seconds: float | None) -> None:
    made, ended = make(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    beginning = asyncio.ensure_future(made.begin(make_pods))
    ending = asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait((beginning, ending), return_when=asyncio.FIRST_COMPLETED)
        if beginning.done():
            beginning.result()
            await made.keep_up(ended, seconds)
    finally:
        for task in (beginning, ending):
            task.cancel()
        await asyncio.gather(beginning, ending, return_exceptions=True)
        await made.end()


def _allow_files() -> None:
    """Allow this process as many sockets as it may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
