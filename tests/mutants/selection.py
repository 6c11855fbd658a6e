"""The modules to mutate, and for each the tests to search for ones that reach a mutant."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

SIMULATION = (
    "tests/simulation/test_seeds.py::test_what_failed_once_does_not_fail_again",
    "tests/simulation/test_run.py",
)
_WHOLE_NODE = (
    "tests/edged/test_pod_life.py",
    "tests/edged/test_deletion.py",
    "tests/edged/test_hard_cases.py",
    "tests/edged/test_runtime_events.py",
    "tests/edged/test_manager_and_prune.py",
    "tests/edged/test_edged.py",
    "tests/edged/test_kill_options.py",
    "tests/edged/test_deadlines.py",
)
"""Tests of edged as a whole, with a fake runtime and a fake cloud."""
_SYNC = (
    "tests/edged/sync",
    "tests/edged/test_lost_store.py",
    "tests/edged/test_unstored_deletion.py",
    "tests/edged/static_pods/test_static_pods.py",
    "tests/edged/admission/test_refused_pods.py",
    "tests/edged/devices/test_pods_with_devices.py",
    "tests/edged/eviction/test_evicted_pods.py",
    "tests/edged/lifecycle/test_ending_pods.py",
    "tests/edged/lifecycle/test_hooked_pods.py",
    "tests/edged/probes/test_probed_pods.py",
    "tests/edged/events/test_pod_events.py",
    "tests/edged/test_the_node.py",
    "tests/edged/test_volume_manager.py",
    *_WHOLE_NODE,
)
"""Tests of edged as a whole that reach the sync loop in their own ways."""
TESTS: dict[str, tuple[str, ...]] = {
    "edged/pods": (
        "tests/edged/pods",
        "tests/edged/pod_workers",
        "tests/edged/status",
        "tests/edged/static_pods",
        "tests/edged/admission",
        "tests/edged/eviction",
        "tests/edged/lifecycle",
        "tests/edged/test_manager_and_prune.py",
        "tests/edged/test_hostile_pods.py",
        *_WHOLE_NODE,
    ),
    "edged/status": ("tests/edged/status", "tests/edged/static_pods", *_WHOLE_NODE),
    "edged/pod_workers": (
        "tests/edged/pod_workers",
        "tests/edged/images",
        "tests/edged/events",
        "tests/edged/test_hostile_pods.py",
        *_WHOLE_NODE,
    ),
    "edged/chains": ("tests/edged/chains",),
    "edged/pleg": ("tests/edged/pleg", *_WHOLE_NODE),
    "edged/node": ("tests/edged/node", "tests/edged/status", "tests/edged/test_the_node.py"),
    "edged/admission": ("tests/edged/admission", "tests/edged/test_hostile_pods.py"),
    "edged/eviction": ("tests/edged/eviction",),
    "edged/images": ("tests/edged/images", "tests/edged/pod_workers/test_image_manager.py"),
    "edged/probes": ("tests/edged/probes",),
    "edged/shutdown": ("tests/edged/shutdown",),
    "edged/volumes": ("tests/edged/volumes", "tests/edged/test_volume_manager.py"),
    "edged/sync/loop.py": _SYNC,
    "edged/sync/pod_machine.py": _SYNC,
    "edged/sync/store.py": _SYNC,
    "edged/sync/orphans.py": _SYNC,
    "edged/status/generator.py": ("tests/edged/status", "tests/edged/probes", *_WHOLE_NODE),
    "modules/edge/edgemesh": tuple(
        f"tests/modules/edge/edgemesh/test_{each}.py"
        for each in (
            "applier",
            "clouds",
            "dns",
            "explaining",
            "half_way",
            "links",
            "lives",
            "module",
            "planes",
            "proxy",
            "rules",
            "tables",
            "watch",
        )
    ),
    "modules/edge/devicetwin": (
        "tests/modules/edge/devicetwin",
        "tests/modules/edge/dmi/test_dmi.py",
        "tests/modules/processes/edgecore/devices",
    ),
    "modules/edge/eventbus": (
        "tests/modules/edge/eventbus",
        "tests/modules/edge/test_cuts.py",
    ),
    "modules/edge/metaserver": ("tests/modules/edge/metaserver", "tests/modules/processes/edgecore/test_metaserver.py"),
    "metamanager": ("tests/metamanager",),
    "modules/apimachinery/options.py": ("tests/modules/apimachinery", "tests/modules/edge/metaserver/test_api.py"),
    "modules/apimachinery/pods": ("tests/modules/apimachinery/pods", "tests/edged/admission/test_admit.py"),
    "modules/apimachinery/application.py": ("tests/metamanager", "tests/modules/edge/metaserver"),
    "edgehub/outbox": ("tests/edgehub",),
    "edgehub/outgoing.py": ("tests/edgehub",),
    "edgehub/lanes.py": ("tests/edgehub",),
    "modules/page/service.py": (
        "tests/modules/page/test_service.py",
        "tests/modules/processes/cloudcore/test_page_sign_in.py",
    ),
    "modules/page/sessions.py": ("tests/modules/page/test_sessions.py",),
    "modules/cloud/cloudhub": ("tests/modules/cloud/cloudhub",),
    "modules/cloud/edgecontroller": ("tests/modules/cloud/edgecontroller",),
    "modules/cloud/controllers": ("tests/modules/cloud/controllers",),
    "modules/cloud/apiserver/scheduling": (
        "tests/modules/cloud/apiserver/test_scheduler.py",
        "tests/modules/cloud/apiserver/test_preemption.py",
    ),
    "modules/cloud/storage": (
        "tests/modules/cloud/storage",
        *(
            f"tests/modules/cloud/apiserver/test_{each}.py"
            for each in ("cluster", "full_disk", "lists", "service_addresses", "stored_objects", "watches")
        ),
        "tests/modules/cloud/apiserver/garbage_collector/test_lives.py",
        "tests/modules/cloud/test_followers.py",
    ),
    "modules/cloud/apiserver/tokens": ("tests/modules/cloud/apiserver/tokens",),
    "modules/processes/common": (
        "tests/modules/processes/common",
        "tests/modules/processes/cloudcore/test_doctor.py",
        "tests/modules/processes/edgecore/doctor",
        "tests/modules/processes/edgecore/support_bundle",
    ),
    "modules/runtimes/engine": (
        "tests/modules/runtimes/engine",
        "tests/modules/runtimes/cri_server",
        "tests/modules/runtimes/process",
    ),
    "modules/runtimes/oci": (
        *(
            f"tests/modules/runtimes/oci/{path.name}"
            for path in sorted((ROOT / "tests/modules/runtimes/oci").glob("test_*.py"))
        ),
        "tests/modules/runtimes/oci/crun",
    ),
    "modules/runtimes/oci/images": ("tests/modules/runtimes/oci/images",),
    "modules/runtimes/oci/metrics": (
        "tests/cri_contract/test_metrics.py",
        "tests/modules/runtimes/oci/test_half_way.py",
    ),
    "modules/runtimes/oci/network": ("tests/modules/runtimes/oci/network",),
    "modules/runtimes/oci/rootless": ("tests/modules/runtimes/oci/rootless",),
    "modules/runtimes/oci/spec": ("tests/modules/runtimes/oci/spec",),
    "modules/runtimes/shim": ("tests/modules/runtimes/shim", "tests/modules/runtimes/process"),
    "modules/runtimes/streaming": (
        "tests/modules/runtimes/streaming",
        "tests/modules/runtimes/process/test_streams.py",
        "tests/modules/streams",
    ),
    "modules/cloud/apiserver": ("tests/modules/cloud/apiserver", "tests/modules/cloud/edgecontroller"),
}
"""Tests by the beginning of the module's path; the longest beginning counts. Packages that are not named have the
tests that mirror them, or the package above."""
PRODUCT = ("beehive", "edgecore_mapper", "edgehub", "edged", "metamanager", "modules")
_TOOLS = "modules/lab/"
_NOT = ("generate.py", "_sql.py", "statements.py", "metrics.py", "errors.py", "__init__.py", "testing.py")
"""Files without decisions."""


def _mirrors() -> dict[str, tuple[str, ...]]:
    """Return the tests of packages that are not named, each in the directory that mirrors it or a package above it."""
    found: dict[str, tuple[str, ...]] = {}
    for top in PRODUCT:
        for package in sorted({path.parent for path in (ROOT / top).rglob("*.py")}):
            name = str(package.relative_to(ROOT))
            if f"{name}/".startswith(_TOOLS) or any(f"{name}/".startswith(f"{one}/") for one in TESTS):
                continue
            mirror = Path("tests", name)
            while not (ROOT / mirror).is_dir():
                mirror = mirror.parent
            found[name] = (str(mirror),)
    return found


TESTS |= _mirrors()


def modules(only: str) -> list[str]:
    """Return the mutated modules whose paths begin with `only`."""
    found = []
    for prefix in TESTS:
        root = ROOT / prefix
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            name = str(path.relative_to(ROOT))
            if name.startswith(_TOOLS) or path.name in _NOT:
                continue
            if name.startswith(only) and name not in found:
                found.append(name)
    return found


def area_of(module: str) -> str:
    """Return the longest beginning of a module's path that `TESTS` has."""
    return max((prefix for prefix in TESTS if module.startswith(prefix)), key=len)


def tests_of(module: str, *, simulation: bool = False) -> list[str]:
    """Return the tests of a module's package, and with `simulation` the simulation's plans."""
    return [*TESTS[area_of(module)], *(SIMULATION if simulation else ())]
