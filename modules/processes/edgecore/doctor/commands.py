"""Runs `edgecore doctor`: gathers facts, checks them, prints the results."""

import argparse
import os
import shlex

from beehive import RealClock
from modules.processes.common.doctor.check_result import Level, failed, print_results
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.doctor.checks import check_all
from modules.processes.edgecore.doctor.gathering import facts
from modules.processes.edgecore.location import node_location


def doctor(chosen: argparse.Namespace) -> int:
    """Print a line for each check; exit status UNWELL if one has failed."""
    try:
        location = node_location(chosen)
        loaded = location.load()
    except ConfigError as error:
        problems = [
            failed("configuration", each.render(error.source), "see docs/configuration.md") for each in error.problems
        ]
        print_results(problems, as_json=chosen.json)
        return ExitCode.CONFIGURATION
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    results = check_all(facts(loaded, shlex.join(location.options), RealClock()))
    print_results(results, as_json=chosen.json)
    return ExitCode.UNWELL if any(each.level is Level.FAILED for each in results) else ExitCode.OK
