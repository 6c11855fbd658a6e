"""Checks of the machine's facts. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from edgehub.certificates.certificate import format_duration
from modules.edge.eventbus.internal_broker import INSTALL
from modules.processes.common.doctor.check_result import CheckResult, failed, ok, unknown, warning
from modules.processes.edgecore.doctor.facts import (
    Configured,
    DatabaseFile,
    Directory,
    DockerNeeds,
    Facts,
    Isolation,
    Kernel,
    Listening,
    MapperSocket,
    MeshNeeds,
    OciNeeds,
    PodNetworkNeeds,
    RootlessNeeds,
    Running,
    Runtime,
)
from modules.processes.edgecore.doctor.link_checks import check_cloud, check_identity
from modules.processes.edgecore.runtime_kinds import LeftKind
from modules.runtimes.oci.programs import INSTALL as OCI_PROGRAMS

_OTHER_RUNTIMES: Final = "other runtimes"
_POD_NETWORK: Final = "pod network"
_MESH: Final = "edgemesh"
_OWN_NETWORK: Final = "edgecore's own network"
_INSTALL: Final = "`apt-get install containernetworking-plugins iptables` (Debian, Ubuntu)"

ROOM_NEEDED: Final = 64 * 1024 * 1024
"""Free bytes below which database and logs are about to fail."""

ROOM_WANTED: Final = 1024 * 1024 * 1024
"""Free bytes below which the next image may not fit."""

INODES_NEEDED: Final = 1000

RECENT: Final = 600.0
"""Seconds during which the cloud's word counts that another machine has this node's name."""

WAITING_MANY: Final = 1000
"""Number of messages for the cloud above which it has been away for long, or accepts too few."""

_FEW: Final = 5
"""Names in a list."""

_LATE: Final = "it could not be looked at in time"


def check_other_kinds(left: tuple[LeftKind, ...], options: str) -> Iterator[CheckResult]:
    """Warn of each kind that has pods and is not configured; `options` lead commands to the node."""
    for each in left:
        yield warning(_OTHER_RUNTIMES, str(each), each.remedy(options))
    if not left:
        yield ok(_OTHER_RUNTIMES, "no other runtime of edgecore's has pods here")


def check_lost(lost: int, options: str) -> Iterator[CheckResult]:
    """Warn of processes of pods whose files are gone; `options` lead commands to the node."""
    if lost:
        remedy = f"`edgecore uninstall {options}".rstrip() + "` ends them, and removes what is left of the node"
        yield warning("lost pods", f"processes of pods run on whose files are gone: {lost}", remedy)


def check_mesh(needs: MeshNeeds) -> Iterator[CheckResult]:
    """Check the requirements of edgemesh."""
    if not needs.has_store:
        yield failed(_MESH, "Services come from metamanager, which is off", "modules.metaManager.enable: true")
    if needs.beside:
        text = f"KubeEdge's edgemesh-agent runs here (interface {needs.beside}), so edgemesh stays off"
        yield warning(_MESH, text, "modules.edgeMesh.enable: false, or remove the agent and its interface")
    if not needs.may_change_rules:
        text = "without root Services have addresses of 127.96.0.0/11"
        yield warning(_MESH, f"{text}, and no names" if needs.has_names else text, "run edgecore as root")
    elif needs.missing:
        instead = "a proxy carries" if needs.may_use_proxy else "nothing carries"
        text = f"not installed: {', '.join(needs.missing)}; {instead} connections to Services"
        yield warning(_MESH, text, f"`apt-get install {' '.join(needs.missing)}` (Debian, Ubuntu)")
    elif needs.has_store and not needs.beside:
        yield ok(_MESH, "all programs of edgemesh are installed")


def check_pod_network(needs: PodNetworkNeeds) -> Iterator[CheckResult]:
    """Check the requirements of the network of pods of a runtime inside edgecore."""
    if needs.problem:
        yield failed(_POD_NETWORK, needs.problem, "pods on the host's network run meanwhile")
    if needs.missing:
        yield failed(_POD_NETWORK, f"not installed: {', '.join(needs.missing)}", _INSTALL)
    if not needs.problem and not needs.missing:
        yield ok(_POD_NETWORK, f"all programs of {needs.source or _OWN_NETWORK} are installed")
    if needs.name_servers:
        servers = ", ".join(needs.name_servers)
        text = f"no name resolves in pods: only the machine itself reaches its name servers ({servers})"
        yield warning("names in pods", text, "let tailoredKubeletConfig.resolvConf name a file with others")
    for switch in needs.switched_off:
        text = f"{switch} is 0: packets of pods reach no other network"
        yield warning("forwarding", text, f"`sysctl -w {switch}=1`; does a file in /etc/sysctl.d set it to 0?")
    for program in needs.dropping:
        text = f"the firewall ({program}) drops forwarded packets, and accepts none of {needs.bridge}"
        by_hand = f"`{program} -I FORWARD -i {needs.bridge} -j ACCEPT`, and the same with -o"
        hint = by_hand if needs.source else "while pods run, edgecore adds its rules again within a minute"
        yield warning("forwarding", text, hint)


T = TypeVar("T")


def check_all(facts: Facts) -> list[CheckResult]:
    """Return the results of all checks, in the order that a person would look."""
    found = list(check_configuration(facts.configured))
    configured = facts.configured
    found += _each("edgecore", facts.running, lambda running: check_running(running, configured.options))
    if facts.running is not None:
        found += check_name(facts.running, configured.node, facts.now)
    found += _each("directories", facts.directories, check_directories)
    found += check_ports(facts.ports, facts.running) if facts.ports is not None else [unknown("ports", _LATE)]
    found += _each("kernel", facts.kernel, lambda kernel: check_kernel(kernel, facts.configured))
    found += _check_kind(facts)
    if facts.mesh is not None:
        found += check_mesh(facts.mesh)
    if facts.mappers is not None and facts.running is not None and facts.running.pid:
        found += check_mappers(facts.mappers)
        found += check_devices(facts.running, facts.unserved)
    if facts.broker is not None:
        found += check_broker(facts.broker)
    if facts.running is not None:
        found += check_brokers(facts.running)
    if facts.runtime is None:
        found.append(unknown("runtime", _LATE, "does its socket hang?"))
    else:
        is_down = facts.configured.runs_container_runtime and facts.running is not None and not facts.running.pid
        found += check_runtime(facts.runtime, facts.configured, is_down=is_down)
    found += _each("database", facts.database, lambda database: check_database("database", database, facts.now))
    found += _each("outbox", facts.outbox, lambda outbox: check_outbox(outbox, facts.now))
    if facts.cloud is None or facts.cloud.secure:
        found += _each("certificate", facts.identity, lambda own: check_identity(own, facts.configured.node, facts.now))
    found += _each("cloud", facts.cloud, lambda cloud: check_cloud(cloud, facts.now))
    found += _each("damaged files", facts.damaged, check_damaged)
    options = facts.configured.options
    found += _each("other runtimes", facts.other_kinds, lambda kinds: check_other_kinds(kinds, options))
    found += _each("lost pods", facts.lost, lambda lost: check_lost(lost, options))
    found += _each("other agents", facts.others, check_others)
    return found


def _each(name: str, part: T | None, check: Callable[[T], Iterator[CheckResult]]) -> list[CheckResult]:
    return [unknown(name, _LATE)] if part is None else list(check(part))


def _check_kind(facts: Facts) -> Iterator[CheckResult]:
    """Check the requirements of the kind of container runtime."""
    if facts.oci is not None:
        yield from check_oci(facts.oci)
    if facts.isolation is not None:
        yield from check_isolation(facts.isolation, facts.configured)
    if facts.rootless is not None:
        yield from check_rootless(facts.rootless)
    if facts.docker is not None:
        yield from check_docker(facts.docker, facts.configured)
    if facts.pod_network is not None:
        yield from check_pod_network(facts.pod_network)


def check_configuration(configured: Configured) -> Iterator[CheckResult]:
    """Check a configuration that could be read."""
    for name, text in configured.warnings:
        yield warning(name or "configuration", text, f"`edgecore config check {configured.source}` says more")
    if configured.unisolated_root:
        text = "as root without TLS, whoever answers as the cloud would be root here"
        hint = "run as another user, or `edgecore join` a cloud with TLS"
        yield failed("unisolated-root", text, hint)
    if configured.without_effect:
        text = f"{configured.source}: {configured.without_effect} keys are set that have no effect"
        yield warning("configuration", text, f"`edgecore config check {configured.source}` names them")
    else:
        yield ok("configuration", f"{configured.source}, node {configured.node}")


def _unconnected(running: Running) -> str:
    why = f": {running.link_problem}" if running.link_problem else ""
    return f"not connected to the cloud, {running.waiting} messages wait for it{why}"


def check_running(running: Running, options: str) -> Iterator[CheckResult]:
    """Check the node's process by its lock and its own answers; `options` lead `edgecore run` to this node."""
    if not running.pid:
        run, unit = f"edgecore run {options}".strip(), f"edgecore unit {options}".strip()
        by_hand = f"start it: `{run}`; `{unit}` prints a unit with which systemd does"
        hint = "start it: `systemctl start edgecore`" if running.has_unit else by_hand
        yield failed("edgecore", "edgecore does not run", hint)
        return
    if running.problem:
        hint = "ask as the user who runs it; if it hangs, its log and `edgecore trace dump` say where"
        yield failed("edgecore", f"process {running.pid} runs and cannot be asked: {running.problem}", hint)
    elif running.health != "ok":
        yield failed("edgecore", f"process {running.pid} is not well: {running.health}", "see its log")
    else:
        yield ok("edgecore", f"process {running.pid} runs and is well")
    if running.connected is not None:
        yield (
            ok("link", f"connected to the cloud, {running.waiting} messages wait for it")
            if running.connected
            else failed("link", _unconnected(running), "see below")
        )
    if running.tunnel is not None:
        hint = (
            "edgecore's log says why; does the cloud serve tunnels (cloudcore: --tunnel-listen; KubeEdge: "
            "modules.cloudStream), is modules.edgeStream.server right? modules.edgeStream.enable: false does without"
        )
        missing = warning("stream tunnel", "there is none: logs and exec from the cloud do not reach this node", hint)
        yield ok("stream tunnel", "connected to the cloud") if running.tunnel else missing


def check_name(running: Running, node: str, now: float) -> Iterator[CheckResult]:
    """Check that no other machine has this node's name."""
    if running.replaced_at is not None and now - running.replaced_at < RECENT:
        when = f"{format_duration(now - running.replaced_at)} ago"
        text = (
            f"another machine seems to be node {node}, too: the cloud ended this one's link for its connection {when}"
        )
        hint = "give one of them another name: `edgecore join --name`, or modules.edged.hostnameOverride"
        yield failed("node name", text, hint)


def check_directories(directories: tuple[Directory, ...]) -> Iterator[CheckResult]:
    """Check that directories exist or can be made, are writable, and have room."""
    for each in directories:
        name = f"directory {each.purpose}"
        if each.read_only:
            text = f"{each.path}: the file system {each.read_only} is mounted read-only"
            hint = f"`mount -o remount,rw {each.read_only}`; a kernel makes one read-only after errors, see dmesg"
            yield failed(name, text, hint)
        elif not each.writable:
            what = "cannot be written to" if each.exists else "is missing and cannot be made"
            as_root = "even root may not: is it immutable (lsattr), or another machine's?"
            hint = as_root if each.by_root else "run as root or as its owner, or configure another"
            yield failed(name, f"{each.path} {what} by this user", hint)
        elif each.free < ROOM_NEEDED:
            yield failed(name, f"{each.path}: {_size(each.free)} are free", "free some disk space")
        elif 0 <= each.inodes < INODES_NEEDED:
            yield failed(name, f"{each.path}: {each.inodes} inodes are free", "remove files; many small ones are there")
        elif each.free < ROOM_WANTED:
            yield warning(name, f"{each.path}: {_size(each.free)} are free", "the next image may not fit")
        else:
            yield ok(name, f"{each.path}, {_size(each.free)} free{'' if each.exists else '; made at the start'}")


def check_ports(ports: tuple[Listening, ...], running: Running | None) -> Iterator[CheckResult]:
    """Check that ports are free, or in use by this node."""
    ours = running is not None and bool(running.pid)
    for each in ports:
        name, where = f"port {each.purpose}", f"{each.address}:{each.port}"
        if each.taken and not ours:
            hint = f"`ss -ltnp sport = :{each.port}` says who; stop that one, or set {each.purpose}"
            yield failed(name, f"{where} is taken: {each.taken}", hint)
        elif ours and not each.taken:
            yield warning(
                name, f"edgecore runs and does not listen on {where}", "was the file changed since its start?"
            )
        else:
            yield ok(name, f"{where} is {'that of edgecore' if ours else 'free'}")


def check_kernel(kernel: Kernel, configured: Configured) -> Iterator[CheckResult]:
    """Check the kernel's features for pods."""
    if not configured.isolated:
        yield ok("kernel", "the process runtime needs nothing of it")
        return
    if configured.rootless:
        return
    if not kernel.root:
        yield failed("permissions", "this user is not root", "real containers need it: run with sudo")
    if not kernel.cgroups:
        yield failed("cgroups", "no control groups are mounted", "mount cgroup2 on /sys/fs/cgroup")
    else:
        yield ok("cgroups", " and ".join(f"version {number}" for number in kernel.cgroups))
    if not kernel.conntrack:
        hint = "`modprobe nf_conntrack`: services and most network plugins need it"
        yield warning("conntrack", "connection tracking is not loaded", hint)
    if kernel.swap:
        yield warning(
            "swap", "swap is on: limits of memory do not hold as they say", "`swapoff -a`, unless it is wanted"
        )


def check_mappers(mappers: MapperSocket) -> Iterator[CheckResult]:
    """Check that mappers of devices can register at the running node."""
    if not mappers.problem:
        yield ok("mappers", f"{mappers.path} answers; root and the group {mappers.group} may connect")
        return
    text = f"mappers cannot register on {mappers.path}: {mappers.problem}"
    hint = "its log says why; modules.deviceTwin.dmiSockPath chooses another directory"
    yield warning("mappers", text, "ask as root, or as a member of its group" if mappers.denied else hint)


def check_devices(running: Running, unserved: Mapping[str, list[str]] | None) -> Iterator[CheckResult]:
    """Check that the registered mappers are there, and that each device has one, or an application."""
    for mapper, is_up in sorted(running.mappers.items()):
        if is_up:
            yield ok("mapper", f"{mapper} listens on its socket")
        else:
            text = f"{mapper} has ended: nobody listens on its socket, and its devices are not reached"
            yield warning("mapper", text, "start it again; its own log says why it has ended")
    for protocol, devices in sorted((unserved or {}).items()):
        more = f" and {len(devices) - _FEW} more" if len(devices) > _FEW else ""
        text = f"no mapper has registered for the protocol {protocol}, and nobody has reported of "
        hint = "start the mapper of the protocol, or an application that reports by MQTT"
        yield warning("devices", f"{text}{', '.join(devices[:_FEW])}{more}", hint)


def check_brokers(running: Running) -> Iterator[CheckResult]:
    """Check that the running node is connected to its MQTT brokers."""
    hints = {
        "internal": "its log says why, in lines with mosquitto",
        "external": "is it running? modules.eventBus.mqttServerExternal names it",
    }
    for broker, is_connected in sorted(running.brokers.items()):
        if is_connected:
            yield ok("MQTT", f"connected to the {broker} broker")
        else:
            text = f"not connected to the {broker} broker: no device or application is reached by MQTT"
            yield warning("MQTT", text, hints.get(broker, ""))


def check_oci(needs: OciNeeds) -> Iterator[CheckResult]:
    """Check the requirements of the OCI runtime."""
    if needs.missing:
        hint = f"`{OCI_PROGRAMS}` (Debian, Ubuntu)"
        yield failed("programs", f"not installed: {', '.join(needs.missing)}", hint)
    else:
        yield ok("programs", "crun or runc, and conmon are installed")
    if not needs.overlay:
        what = "the kernel has no overlayfs: each container copies its image, and hostUsers: false is refused"
        yield warning("overlayfs", what, "`modprobe overlay`, or a kernel with it")
    if needs.old:
        yield warning("crun", needs.old, "a newer one is among its releases on GitHub, as one static file")


def check_rootless(needs: RootlessNeeds) -> Iterator[CheckResult]:
    """Check the requirements of containers that an ordinary user isolates."""
    for each in needs.shortages:
        yield failed(each.name, each.reason, each.hint)
    if not needs.shortages:
        yield ok("without root", f"{needs.user} may isolate containers, with a network and users of their own")
    if needs.unlimited is None:
        yield ok("cgroups", "systemd delegates CPU, memory and processes: limits of pods are enforced")
    else:
        text = f"limits of {needs.unlimited.name} are not enforced: {needs.unlimited.reason}"
        yield warning("cgroups", text, needs.unlimited.hint)
    if needs.ends_at_log_out:
        text = f"systemd ends containers when {needs.user} logs out"
        yield warning("linger", text, f"loginctl enable-linger {needs.user}")


def check_isolation(isolation: Isolation, configured: Configured) -> Iterator[CheckResult]:
    """Check what the first start of a node without a configuration file would find; a later one does not look."""
    again = (
        f"then `edgecore reset --runtime {configured.options}`, which ends its pods, and the next start chooses again"
    )
    if isolation.missing:
        yield warning("isolation", f"containers are not isolated: {isolation.missing}", f"{isolation.remedy}; {again}")
    else:
        yield ok("isolation", "the first start of a node isolates containers here (embedded://oci)")


def check_docker(needs: DockerNeeds, configured: Configured) -> Iterator[CheckResult]:
    """Check the requirements of embedded://docker."""
    if needs.problem:
        hint = "`apt-get install docker.io` (Debian, Ubuntu), `systemctl start docker`; dockerAddress names its socket"
        yield failed("docker", needs.problem, hint)
        return
    yield ok("docker", f"Docker Engine answers, version {needs.api} of its API")
    theirs, ours = needs.cgroup_driver, configured.cgroup_driver
    if theirs and configured.own_cgroups and theirs != ours:
        hint = f'set cgroupDriver: {theirs}, or "exec-opts": ["native.cgroupdriver={ours}"] in Docker\'s daemon.json'
        yield failed("cgroup driver", f"Docker uses {theirs}, this node {ours}: two owners of one tree", hint)


def check_broker(program: str) -> Iterator[CheckResult]:
    """Check that the program of the internal MQTT broker is there."""
    if program:
        yield ok("MQTT broker", f"{program} is installed")
    else:
        hint = f"`{INSTALL}` (Debian, Ubuntu), or name a broker in mqttServerExternal and set mqttMode: 2"
        yield failed("MQTT broker", "mosquitto is not installed, and edgecore is to run it", hint)


def check_runtime(runtime: Runtime, configured: Configured, *, is_down: bool) -> Iterator[CheckResult]:
    """Check the container runtime; with `is_down` it is the one inside an edgecore that does not run."""
    if is_down:
        yield unknown("runtime", "the runtime inside edgecore runs with it", "start edgecore")
        return
    if runtime.problem:
        hint = "is it running? `systemctl status containerd`; containerRuntimeEndpoint names its socket"
        yield failed("runtime", f"{runtime.endpoint} does not answer: {runtime.problem}", hint)
        return
    yield ok("runtime", f"{runtime.version} at {runtime.endpoint}")
    for condition in runtime.conditions:
        if condition.true:
            yield ok(condition.name, "true")
        else:
            hint = "is a CNI configuration in /etc/cni/net.d?" if condition.name == "NetworkReady" else "see its log"
            yield failed(condition.name, f"false: {condition.why or 'without a reason'}", hint)
    theirs, ours = runtime.cgroup_driver, configured.cgroup_driver
    if theirs and configured.own_cgroups and theirs != ours:
        hint = f"set cgroupDriver: {theirs}, or SystemdCgroup in the runtime's configuration"
        yield failed("cgroup driver", f"the runtime uses {theirs}, this node {ours}: two owners of one tree", hint)
    elif theirs and configured.own_cgroups:
        yield ok("cgroup driver", theirs)


def check_database(name: str, database: DatabaseFile, now: float) -> Iterator[CheckResult]:
    """Check one database file."""
    if not database.exists:
        yield warning(
            name, f"{database.path} is not there", "the first start makes it; if the node had one, it is lost"
        )
    elif database.problem:
        hint = "edgecore sets it aside at its next start and keeps what can be read; is the disk dying? see dmesg"
        yield failed(name, f"{database.path}: {database.problem}", hint)
    else:
        sound = "not looked at to its end" if database.unfinished else "sound"
        age = _ago(now - database.changed)
        yield ok(name, f"{database.path}: {sound}, {_size(database.size)}, last changed {age}")


def check_outbox(outbox: DatabaseFile, now: float) -> Iterator[CheckResult]:
    """Check the messages for the cloud on the disk; the file exists from the first message on."""
    if not outbox.exists:
        yield ok("outbox", "nothing waits for the cloud on the disk")
    elif outbox.problem:
        yield from check_database("outbox", outbox, now)
    elif outbox.rows >= WAITING_MANY:
        text = f"{outbox.rows} messages wait for the cloud on the disk"
        yield warning("outbox", text, "the oldest are dropped one day: see why the cloud does not take them")
    else:
        yield ok("outbox", f"{outbox.rows} messages wait for the cloud on the disk")


def check_damaged(damaged: tuple[str, ...]) -> Iterator[CheckResult]:
    """Warn of damaged files that were set aside."""
    for each in damaged:
        hint = "edgecore could not read it at a start, its log says why; is the disk dying? see dmesg; then remove it"
        yield warning("damaged files", each, hint)
    if not damaged:
        yield ok("damaged files", "nothing had to be set aside")


def check_others(others: tuple[str, ...]) -> Iterator[CheckResult]:
    """Warn of other agents, which would manage the same pods."""
    for each in others:
        yield warning("other agents", each, "stop and disable it: two agents on one runtime remove each other's pods")
    if not others:
        yield ok("other agents", "no other kubelet or KubeEdge was found")


def _size(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"


def _ago(seconds: float) -> str:
    return (
        f"{format_duration(seconds)} ago"
        if seconds >= 0
        else f"{format_duration(-seconds)} from now: is the clock behind?"
    )
