"""Which modules are mutated, and among which tests those are sought that reach a mutant."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

SIMULATION = (
    "tests/simulation/test_seeds.py::test_what_failed_once_does_not_fail_again",
    "tests/simulation/test_run.py",
)
_LIVES = (
    "tests/edged/test_pod_life.py",
    "tests/edged/test_deletion.py",
    "tests/edged/test_hard_cases.py",
    "tests/edged/test_runtime_events.py",
    "tests/edged/test_manager_and_prune.py",
    "tests/edged/test_edged.py",
    "tests/edged/test_verdict.py",
    "tests/edged/test_deadlines.py",
)
"""Lives of pods on a node whose runtime and cloud are doubles."""
TESTS: dict[str, tuple[str, ...]] = {
    "edged/pods": (
        "tests/edged/pods",
        "tests/edged/work",
        "tests/edged/report",
        "tests/edged/static_pods",
        "tests/edged/test_hostile_pods.py",
        *_LIVES,
    ),
    "edged/report": ("tests/edged/report", "tests/edged/static_pods", *_LIVES),
    "edged/work": (
        "tests/edged/work",
        "tests/edged/images",
        "tests/edged/events",
        "tests/edged/test_hostile_pods.py",
        *_LIVES,
    ),
    "edged/pleg": ("tests/edged/pleg", *_LIVES),
    "edged/node/ownership.py": ("tests/edged/node", "tests/edged/test_the_node.py"),
    "edged/admission/validation.py": ("tests/edged/admission", "tests/edged/test_hostile_pods.py"),
    "edged/keeper.py": _LIVES,
    "edged/rounds.py": _LIVES,
    "edged/statuses.py": ("tests/edged/report", "tests/edged/probes", *_LIVES),
    "metamanager": ("tests/metamanager",),
    "edgehub/outbox": ("tests/edgehub",),
    "edgehub/outgoing.py": ("tests/edgehub",),
    "edgehub/lanes.py": ("tests/edgehub",),
    "modules/cloudhub": ("tests/modules/cloudhub",),
    "modules/edgecontroller": ("tests/modules/edgecontroller",),
}
"""By the beginning of the module's path."""
_NOT = ("generate.py", "_sql.py", "_sqlite_sql.py", "schema.py", "metrics.py", "errors.py", "__init__.py", "testing.py")
"""Files that decide nothing."""


def modules(only: str) -> list[str]:
    """The modules whose paths begin so."""
    found = []
    for prefix in TESTS:
        root = ROOT / prefix
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            name = str(path.relative_to(ROOT))
            if name.startswith(only) and path.name not in _NOT:
                found.append(name)
    return found


def tests_of(module: str, *, simulation: bool = False) -> list[str]:
    """The tests of a module's package, and seeds of the simulation if wanted; those that reach a change are run."""
    prefix = max((prefix for prefix in TESTS if module.startswith(prefix)), key=len)
    return [*TESTS[prefix], *(SIMULATION if simulation else ())]
