"""The commands `edgecore upgrade`, `edgecore rollback` and `edgecore versions`."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from beehive.clock import RealClock
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.files.durable import make_directories
from metamanager.store import sqlite_path
from modules.apimachinery.printing.terminal import print_error, print_json, print_lines
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.location import NodeLocation, node_location, run_command
from modules.processes.edgecore.ownership import LOCK_FILE
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.upgrade.bundle import MANIFEST, BundleManifest, read_bundle, read_manifest
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.exclusion import changes_of, held, journal_of, words_of
from modules.processes.edgecore.upgrade.preconditions import UpgradeHost, refusal_of
from modules.processes.edgecore.upgrade.programs import write_programs
from modules.processes.edgecore.upgrade.replay_gate import compare, recordings
from modules.processes.edgecore.upgrade.sources import bundle_of
from modules.processes.edgecore.upgrade.staging import stage
from modules.processes.edgecore.upgrade.trial import VersionTrial
from modules.processes.edgecore.upgrade.updater.database import inode_of, schema_of
from modules.processes.edgecore.upgrade.updater.installation import Installation, installation_of
from modules.processes.edgecore.upgrade.updater.journal import (
    NodeHandle,
    NodeObservation,
    Phase,
    ProbationLimits,
    UpgradeJournal,
)
from modules.processes.edgecore.upgrade.updater.locks import owner_of
from modules.processes.edgecore.upgrade.updater.observation import failed_checks, observe_settled_node
from modules.processes.edgecore.upgrade.updater.starting import start_updater
from modules.processes.edgecore.upgrade.versions import is_version, order_of

_SILENCE: Final = 60.0
"""Seconds after which an updater that holds no lock counts as dead."""
_EVERY: Final = 0.2
_SERVICE: Final = re.compile(r"/([A-Za-z0-9:_.@\\-]{1,200}\.service)(?=/|$)", re.ASCII | re.MULTILINE)
_COMMAND_SECONDS: Final = 30.0
_SCRATCH: Final = ".scratch-"


@reporting_errors
def upgrade(chosen: argparse.Namespace) -> None:
    """Switch to the version in a bundle, and follow its probation."""
    location = node_location(chosen)
    config = location.load().config
    installation = _installation(chosen, makes=True)
    with prepared(installation, changes_of(location, config), only_check=chosen.only_check) as scratch:
        wheels = scratch / "wheels"
        wheels.mkdir()
        host = UpgradeHost.of(installation.current(), RealClock().now())
        file = bundle_of(chosen.bundle, config, installation.state, host)
        keeps = chosen.only_check or file.parent != installation.state
        try:
            manifest, text = _accepted(file, config, host, wheels, chosen)
        except BeehiveError:
            keeps = file.parent != installation.state
            raise
        finally:
            if not keeps:
                file.unlink(missing_ok=True)
        if chosen.only_check:
            return
        _remove_others(installation)
        stage(wheels.iterdir(), text, manifest.version, installation, manifest.unpacked)
        _switch(chosen, installation, location, config, manifest, scratch)
    follow(installation)


def _accepted(
    file: Path, config: EdgeCoreConfig, host: UpgradeHost, wheels: Path, chosen: argparse.Namespace
) -> tuple[BundleManifest, bytes]:
    """Extract the wheels of a bundle that this machine takes; return its manifest, and the text of that.

    Raises:
        UpgradeError: it is refused.
    """
    early = read_manifest(file, config.upgrade.trusted_keys)
    refusal = refusal_of(early, host, allow_downgrade=chosen.allow_downgrade, allow_expired=chosen.allow_expired)
    if refusal:
        raise UpgradeError("the bundle is refused", early.version, refusal)
    return read_bundle(file, config.upgrade.trusted_keys, wheels)


@reporting_errors
def rollback(chosen: argparse.Namespace) -> None:
    """Switch to an earlier version, and follow its probation."""
    location = node_location(chosen)
    config = location.load().config
    installation = _installation(chosen, makes=False)
    with prepared(installation, changes_of(location, config)) as scratch:
        version = chosen.version or _previous(installation)
        manifest = _manifests(installation).get(version)
        if manifest is None or version == installation.current():
            raise UpgradeError("cannot go back", version, "`edgecore versions` shows the versions that are here")
        _switch(chosen, installation, location, config, manifest, scratch)
    follow(installation)


@reporting_errors
def versions(chosen: argparse.Namespace) -> None:
    """Print the versions, and the last upgrade."""
    installation = _installation(chosen, makes=False)
    current, journal = installation.current(), journal_of(installation)
    found = sorted(_manifests(installation).values(), key=lambda each: order_of(each.version))
    if chosen.json:
        last = None if journal is None else {
            "from": journal.origin, "to": journal.target, "phase": journal.phase, "report": journal.report,
        }  # fmt: skip
        print_json(
            {
                "current": current,
                "versions": [{"version": each.version, "commit": each.commit, "schema": each.schema} for each in found],
                "last": last,
            },
            indent=2,
        )
        return
    print_lines(f"{'*' if each.version == current else ' '} {each.version}  {each.commit[:12]}" for each in found)
    if journal is not None:
        print_lines([f"last: {journal.origin} to {journal.target}: {journal.phase}", *journal.report])


def _installation(chosen: argparse.Namespace, *, makes: bool) -> Installation:
    """Return the installation that is meant.

    Raises:
        UpgradeError: this program belongs to none, and none is named; or others than its owner may write there.
    """
    installation = installation_of(Path(sys.prefix))
    if chosen.installation is not None:
        installation = Installation(chosen.installation.absolute())
    if installation is None:
        hint = "--installation DIR names one; `edgecore upgrade` makes it if it does not exist"
        raise UpgradeError("this edgecore is in no directory of versions", hint=hint)
    if makes:
        make_directories(installation.versions, 0o755)
    elif not installation.versions.is_dir():
        raise UpgradeError("there are no versions", str(installation.root), "`edgecore upgrade` makes the directory")
    for directory in (installation.root, installation.versions):
        status = directory.stat()
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
            raise UpgradeError("others may write to the versions", str(directory), "they could run code as this user")
    return installation


@contextmanager
def prepared(installation: Installation, others: Iterable[Installation], *, only_check: bool = False) -> Iterator[Path]:
    """Hold the installation, and yield a scratch directory in it; those of commands that were killed are removed.

    Args:
        installation: the directory of the change.
        others: where the node may be changed besides.
        only_check: whether nothing is changed.

    Raises:
        UpgradeError: another change is under way.
    """
    directory = installation.state
    with held(others, installation, only_check=only_check):
        for left in directory.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=directory) as scratch:
            yield Path(scratch)


def _switch(
    chosen: argparse.Namespace,
    installation: Installation,
    location: NodeLocation,
    config: EdgeCoreConfig,
    manifest: BundleManifest,
    scratch: Path,
) -> None:
    """Try a version that is staged, and let the updater switch to it; without a node that runs, switch at once."""
    version = manifest.version
    trial = VersionTrial(installation.versions / version, version)
    trial.check_program()
    trial.check_configuration(location.file)
    current, handle = installation.current(), running_node(config, location)
    database = _database(config)
    _check_schema(database, manifest)
    write_programs(installation)
    if not current or handle is None:
        installation.activate(version)
        print_lines([f"edgecore {version} is current"])
        following = run_command(str(installation.launcher), chosen)
        print_error("edgecore", f"without probation, as no node of {installation.root} runs; next: {following}")
        return
    if not _is_run_from(installation, handle):
        raise UpgradeError("the node runs from elsewhere", hint=f"let its unit run {installation.launcher} first")
    report = _replay(chosen, trial.program, installation, handle, manifest, config.modules.edged.root_directory)
    before, problems = observed(installation, handle)
    schema = 0 if database is None else trial.check_database(database, scratch, manifest.schema)
    limits = ProbationLimits.of(chosen.within or config.upgrade.within, chosen.steady or config.upgrade.steady)
    file, inode = (str(database), inode_of(database)) if database is not None else ("", 0)
    journal = UpgradeJournal(current, version, handle, before, problems, file, schema, inode, limits)
    journal.report += report
    installation.write(journal, Phase.STAGED)


def observed(installation: Installation, handle: NodeHandle) -> tuple[NodeObservation, list[str]]:
    """Return the node as it is, and the checks of its `doctor` that fail. Raises UpgradeError if it does not answer."""
    before, problems = observe_settled_node(handle.socket), failed_checks(installation.program(), handle.options)
    if before is None or problems is None:
        raise UpgradeError("the node does not answer", handle.socket, "it has to be compared with what it will be")
    return before, problems


def _replay(
    chosen: argparse.Namespace,
    program: Path,
    installation: Installation,
    handle: NodeHandle,
    manifest: BundleManifest,
    root: Path,
) -> list[str]:
    """Let the version replay what the node has recorded; return what that has shown.

    Raises:
        UpgradeError: it decides otherwise than the current one did, where nobody has allowed it.
    """
    if not chosen.replay_seconds:
        return []
    directory = Path(f"/proc/{owner_of(Path(handle.lock))}/cwd")
    traces = recordings(handle.arguments, directory, root)
    found = compare(program, installation.program(), traces, chosen.replay_seconds)
    allowed = {*manifest.differences, *chosen.allow_difference}
    refused = {name: trace for name, trace in found.differences.items() if name not in allowed}
    if refused:
        text = ", ".join(f"{name!r} ({trace})" for name, trace in sorted(refused.items()))
        hint = "`replay FILE` of its program shows how; --allow-difference NAME allows it"
        raise UpgradeError("the version decides otherwise than the current one did", text, hint)
    report = [f"recordings that it has replayed: {found.replayed}; no decision differs that is not allowed"]
    report += [f"not replayed: {name}: {why}" for name, why in sorted(found.left_out.items())]
    for line in report:
        print_error("edgecore", line)
    return report


def _check_schema(database: Path | None, manifest: BundleManifest) -> None:
    """Refuse a version that does not know the schema that the database has. Raises UpgradeError."""
    present = None if database is None else schema_of(database)
    if present is not None and present > manifest.schema:
        hint = f"the database has schema {present}, and it knows {manifest.schema}: restore a backup of its time"
        raise UpgradeError("the version cannot read the database", manifest.version, hint)


def _database(config: EdgeCoreConfig) -> Path | None:
    """Return the file of the node's database; None without one."""
    path = sqlite_path(str(config.database_url))
    return path if path is not None and path.exists() else None


def running_node(config: EdgeCoreConfig, location: NodeLocation) -> NodeHandle | None:
    """Return the node that runs; None if none does."""
    lock = config.modules.edged.root_directory / LOCK_FILE
    process = owner_of(lock)
    if not process:
        return None
    words = words_of(process)
    arguments = words[words.index("run") + 1 :] if "run" in words else list(location.options)
    unit, user = unit_of(process, Path(f"/proc/{process}/cgroup").read_text())
    return NodeHandle(str(lock), str(socket_path(config)), list(location.options), arguments, unit, user)


def _is_run_from(installation: Installation, handle: NodeHandle) -> bool:
    words = words_of(owner_of(Path(handle.lock)))
    return any(Path(word).is_relative_to(installation.root) for word in words[:2])


def unit_of(process: int, cgroups: str) -> tuple[str, bool]:
    """Return the unit of systemd whose main process it is, and whether that is a user's; empty without one.

    Args:
        process: the process.
        cgroups: content of its `/proc/PID/cgroup`.
    """
    names = _SERVICE.findall(cgroups)
    if not names:
        return "", False
    user = "/user@" in cgroups
    command = ["systemctl", *(["--user"] if user else []), "show", "--property=MainPID", "--value", names[-1]]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return "", False
    return (names[-1], user) if done.stdout.strip() == str(process) else ("", False)


def _manifests(installation: Installation) -> dict[str, BundleManifest]:
    """Return the manifests of the versions that are here."""
    found = {}
    for path in installation.versions.iterdir():
        if is_version(path.name):
            try:
                found[path.name] = decode_json((path / MANIFEST).read_bytes(), BundleManifest)
            except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
                print_error("edgecore", f"not a version: {path}: {error}")
    return found


def _previous(installation: Installation) -> str:
    """Return the version before the current one; raises UpgradeError without one."""
    journal = journal_of(installation)
    if journal is None or journal.phase is not Phase.COMMITTED or journal.target != installation.current():
        raise UpgradeError("no earlier version is known", hint="name one; `edgecore versions` shows them")
    return journal.origin


def _remove_others(installation: Installation) -> None:
    """Remove the versions that are neither current nor the one before, and the bundles that were fetched for them."""
    journal = journal_of(installation)
    kept = {installation.current(), *([journal.origin, journal.target] if journal is not None else [])}
    for path in installation.versions.iterdir():
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)
    for fetched in installation.state.glob("edgecore-*.bundle*"):
        fetched.unlink(missing_ok=True)


def follow(installation: Installation) -> None:
    """Start the updater, and wait for the end of what it does.

    Raises:
        UpgradeError: it has rolled back, or ended before its end.
    """
    journal = journal_of(installation)
    if journal is None or journal.phase is not Phase.STAGED:
        return
    try:
        start_updater(installation, journal.node, is_starting=False)
    except subprocess.SubprocessError as error:
        raise UpgradeError("the updater was not started", hint=str(error)) from error
    subject, within = journal.subject, journal.limits.within
    print_error("edgecore", f"{subject} is on probation for up to {within:.0f} s; this may be left")
    journal = _ended(installation)
    if journal.phase is Phase.ROLLED_BACK:
        former = f"the former one in {journal.configuration}" if journal.configuration else journal.origin
        raise UpgradeError(f"back to {former}", subject, "; ".join(journal.report))
    print_lines([journal.configuration or f"edgecore {journal.target} is current"])


def _ended(installation: Installation) -> UpgradeJournal:
    """Return the upgrade at its end."""
    alive = time.monotonic()
    while True:
        journal = installation.journal()
        if journal is not None and journal.phase in (Phase.COMMITTED, Phase.ROLLED_BACK):
            return journal
        now = time.monotonic()
        if installation.is_locked():
            alive = now
        if now - alive > _SILENCE:
            raise UpgradeError("the updater does not run", hint=f"see {installation.state / 'updater.log'}")
        time.sleep(_EVERY)
