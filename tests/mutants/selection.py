"""Which modules are mutated, and which tests are run of each: the nearest first, for the first failure ends a run."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

SIMULATION = (
    "tests/simulation/test_seeds.py::test_what_failed_once_does_not_fail_again",
    "tests/simulation/test_run.py",
)
TESTS: dict[str, tuple[str, ...]] = {
    "edged/pods": ("tests/edged/pods", "tests/edged/test_manager_and_prune.py", "tests/edged/test_pod_life.py"),
    "edged/report": ("tests/edged/report", "tests/edged/static_pods"),
    "edged/work": ("tests/edged/work", "tests/edged/test_pod_life.py", "tests/edged/test_deletion.py"),
    "edged/pleg": ("tests/edged/pleg", "tests/edged/test_runtime_events.py"),
    "edged/keeper.py": (
        "tests/edged/test_pod_life.py",
        "tests/edged/test_deletion.py",
        "tests/edged/test_hard_cases.py",
    ),
    "edged/rounds.py": (
        "tests/edged/test_pod_life.py",
        "tests/edged/test_deletion.py",
        "tests/edged/test_hard_cases.py",
    ),
    "edged/statuses.py": ("tests/edged/test_pod_life.py", "tests/edged/test_hard_cases.py"),
    "metamanager": (
        "tests/metamanager/test_rules.py",
        "tests/metamanager/test_rows.py",
        "tests/metamanager/test_operations.py",
        "tests/metamanager",
    ),
    "edgehub/outbox": ("tests/edgehub/test_outbox.py", "tests/edgehub/test_module.py"),
    "edgehub/outgoing.py": (
        "tests/edgehub/test_outgoing.py",
        "tests/edgehub/test_outbox.py",
        "tests/edgehub/test_module.py",
    ),
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
    """The tests of a module: those of its own name, those of its package, and seeds of the simulation if wanted."""
    prefix = max((prefix for prefix in TESTS if module.startswith(prefix)), key=len)
    named = f"test_{Path(module).stem}.py"
    near = [str(path.relative_to(ROOT)) for each in TESTS[prefix] for path in sorted((ROOT / each).glob(named))]
    return list(dict.fromkeys([*near, *TESTS[prefix], *(SIMULATION if simulation else ())]))
