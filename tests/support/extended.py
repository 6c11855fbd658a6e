"""What `make test` leaves out and `make test-all` runs beside it, by files; single tests have the mark `extended`.

`make test` has each package's own tests, the contracts that runtimes and databases keep, and `WALKS`: tests of each use
that start the real processes. The files below start processes beyond that, test our own tools, prove how time and
memory grow, or kill and hurt again and again. `make mutants ARGS=--tiers` shows what they alone find.
"""

from typing import Final

from _pytest.mark.expression import Expression

MARK: Final = "extended"

WALKS: Final = (
    "tests/end_to_end/test_docker.py",
    "tests/end_to_end/test_join.py::test_a_node_joins_and_runs_a_pod",
    "tests/end_to_end/test_kinds_of_runtimes.py",
    "tests/end_to_end/test_lifecycle.py::test_a_change",
    "tests/end_to_end/test_lifecycle.py::test_create",
    "tests/end_to_end/test_lifecycle.py::test_deletion",
    "tests/end_to_end/test_lifecycle.py::test_environment",
    "tests/end_to_end/test_make_run.py::test_make_run_once",
    "tests/end_to_end/test_oci.py::test_a_pod_is_isolated_and_limited",
    "tests/end_to_end/test_oci.py::test_an_image_from_an_archive",
    "tests/end_to_end/test_process.py",
    "tests/end_to_end/test_rootless.py",
    "tests/end_to_end/test_volumes.py",
    "tests/modules/page/test_walk.py",
    "tests/simulation/test_run.py",
)
"""Of files that are left out, what `make test` has all the same: the demo, a node on each runtime, the page."""

_FILES: Final = (
    # our own tools
    "tests/bench/",
    "tests/counts/",
    "tests/life/",
    "tests/load/",
    "tests/mutants/",
    "tests/pictures/",
    "tests/support/",
    # the site, pages whose commands are run, and wheels that are installed
    "tests/compatibility/",
    "tests/documentation/test_add_a_module.py",
    "tests/documentation/test_commands.py::test_after",
    "tests/documentation/test_commands.py::test_the_commands",
    "tests/documentation/test_help.py::test_the_examples_work",
    "tests/documentation/test_site.py",
    "tests/packaging/test_wheel.py",
    # processes, and nodes with real containers
    "tests/end_to_end/",
    "tests/interop/test_device_recordings.py",
    "tests/interop/test_job_recordings.py",
    "tests/modules/edge/edgemesh/test_kernel.py",
    "tests/modules/edge/eventbus/test_mosquitto_sessions.py",
    "tests/modules/kubectl/test_against_kubectl.py",
    "tests/modules/kubectl/test_custom_resources.py",
    "tests/modules/processes/cloudcore/test_cluster_state.py",
    "tests/modules/processes/cloudcore/test_imports.py",
    "tests/modules/processes/cloudcore/test_kubectl.py",
    "tests/modules/processes/cloudcore/test_several.py",
    "tests/modules/processes/cloudcore/test_shared.py",
    "tests/modules/processes/common/test_completion.py",
    "tests/modules/processes/common/test_start_collector.py",
    "tests/modules/processes/demo/test_orphans.py",
    "tests/modules/processes/edgecore/test_imports.py",
    "tests/modules/processes/edgecore/test_process.py",
    "tests/modules/processes/edgecore/test_spoilt_files.py",
    "tests/modules/processes/edgecore/top/test_command.py",
    "tests/modules/processes/edgecore/trace/test_recorded_run.py",
    "tests/modules/processes/edgecore/upgrade/test_killed.py",
    "tests/modules/runtimes/docker/test_survival.py",
    "tests/modules/runtimes/oci/images/test_archive_compression.py",
    "tests/modules/runtimes/oci/images/test_declared_volumes.py",
    "tests/modules/runtimes/oci/images/test_export.py",
    "tests/modules/runtimes/oci/images/test_killed.py",
    "tests/modules/runtimes/oci/images/test_like_containerd.py",
    "tests/modules/runtimes/oci/images/test_pulls.py",
    "tests/modules/runtimes/oci/images/test_root_filesystems.py",
    "tests/modules/runtimes/oci/network/test_firewall_reload.py",
    "tests/modules/runtimes/oci/network/test_forwarding.py",
    "tests/modules/runtimes/oci/network/test_loopback_firewall.py",
    "tests/modules/runtimes/oci/network/test_real_plugins.py",
    "tests/modules/runtimes/oci/network/test_routed_pods.py",
    "tests/modules/runtimes/oci/test_archives.py",
    "tests/modules/runtimes/oci/test_declared_volumes.py",
    "tests/modules/runtimes/oci/test_life.py",
    "tests/modules/runtimes/oci/test_runc.py",
    "tests/modules/runtimes/oci/test_streams.py",
    "tests/modules/runtimes/process/test_life.py",
    "tests/modules/runtimes/process/test_recovery.py",
    "tests/modules/runtimes/process/test_server.py",
    "tests/modules/runtimes/process/test_streams.py",
    "tests/modules/runtimes/process/test_survival.py",
    "tests/modules/runtimes/streaming/test_hostile_clients.py",
    "tests/modules/runtimes/streaming/test_kubectl.py",
    # pages in a browser
    "tests/modules/page/test_browser.py",
    "tests/modules/page/test_keyboard.py",
    "tests/modules/page/test_large_fleet.py",
    "tests/modules/page/test_node_page.py",
    "tests/modules/page/test_shells.py",
    "tests/modules/processes/cloudcore/test_page_kubeconfig.py",
    "tests/modules/processes/cloudcore/test_page_port.py",
    "tests/modules/processes/cloudcore/test_page_sign_in.py",
    "tests/modules/processes/edgecore/trace/test_view.py",
    # how time and memory grow
    "tests/modules/cloud/apiserver/test_cost.py",
    # campaigns: whole nodes with faults, kills, recordings cut at each place, drawn input and orders of threads
    "tests/beehive/test_thread_orders.py",
    "tests/chaos/",
    "tests/edgehub/test_thread_orders.py",
    "tests/fuzz/",
    "tests/interop/test_traces_mutated.py",
    "tests/modules/cloud/apiserver/test_books.py",
    "tests/modules/cloud/apiserver/test_scheduler_lives.py",
    "tests/modules/cloud/cloudstream/test_thread_orders.py",
    "tests/modules/edge/test_thread_orders.py",
    "tests/modules/runtimes/oci/network/test_thread_orders.py",
    "tests/replay/test_capture_restarts.py",
    "tests/replay/test_late.py",
    "tests/simulation/",
)


def is_extended(nodeid: str) -> bool:
    """Return whether `make test` leaves out a test for the file that it is in."""
    return nodeid.startswith(_FILES) and not nodeid.startswith(WALKS)


def holds_only_extended(path: str) -> bool:
    """Return whether `make test` leaves out all tests of a file."""
    return is_extended(path) and not any(walk.startswith(path) for walk in WALKS)


def leaves_out(markers: str) -> bool:
    """Return whether an expression of `-m` selects no test that is extended, whatever other marks it has."""
    if not markers:
        return False
    expression = Expression.compile(markers)
    alone = expression.evaluate(lambda name, /, **_: name == MARK)
    with_all = expression.evaluate(lambda _, /, **__: True)
    return not (alone or with_all)
