"""The options of `cloudcore run` for the audit log, with kube-apiserver's names."""

import argparse
from pathlib import Path
from typing import Final

import msgspec

from beehive.decoding import convert
from modules.processes.cloudcore.config import AuditLogConfig

_DEFAULTS: Final = AuditLogConfig(path=Path())


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("a log of who asked what of the Kubernetes API, as JSON lines of audit.k8s.io/v1")
    group.add_argument(
        "--audit-log-path", type=Path, metavar="FILE", help="write it here, with mode 0600 (default: not written)"
    )
    group.add_argument(
        "--audit-log-maxsize",
        type=int,
        metavar="MB",
        help=f"of the file; a full one is kept with the time in its name (default {_DEFAULTS.max_size})",
    )
    group.add_argument(
        "--audit-log-maxbackup",
        type=int,
        metavar="N",
        help=f"full files that are kept (default {_DEFAULTS.max_backup})",
    )


def mistake(chosen: argparse.Namespace) -> str:
    """Return an error about the options, or ""."""
    others = {"--audit-log-maxsize": chosen.audit_log_maxsize, "--audit-log-maxbackup": chosen.audit_log_maxbackup}
    given = [name for name, value in others.items() if value is not None]
    if given and chosen.audit_log_path is None:
        return f"{given[0]} is of the audit log: add --audit-log-path FILE"
    if chosen.audit_log_path is not None and str(chosen.audit_log_path) == "-":
        return "--audit-log-path is a file: the standard output has the log of cloudcore"
    try:
        convert(settings(chosen), AuditLogConfig | None, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        bounds = "1 to 10000 MB, and 1 to 1000 full files are kept"
        return f"--audit-log-maxsize or --audit-log-maxbackup is wrong ({bounds}): {error}"
    return ""


def settings(chosen: argparse.Namespace) -> dict[str, object] | None:
    """Return the settings, None without an audit log."""
    if chosen.audit_log_path is None:
        return None
    given = {"max_size": chosen.audit_log_maxsize, "max_backup": chosen.audit_log_maxbackup}
    return {"path": str(chosen.audit_log_path), **{name: value for name, value in given.items() if value is not None}}
