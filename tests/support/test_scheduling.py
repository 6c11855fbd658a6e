"""How tests are given to the processes of pytest-xdist."""

from types import SimpleNamespace

import pytest

from tests.support.scheduling import BROWSER, MOST_AT_ONCE, TOGETHER, WAITS, Scheduling, at_once, turn

TESTS = [f"test.py::test[{number}]" for number in range(40)]


class Process:
    """Stands for a process of pytest-xdist; remembers what it is to run."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        """Remember them."""
        self.given += indices

    def shutdown(self) -> None:
        """Take no more."""
        self.shutting_down = True


@pytest.mark.parametrize(
    ("left", "processes", "count"), [(14_000, 3, MOST_AT_ONCE), (240, 3, 10), (47, 3, 1), (1, 3, 1), (10, 0, 1)]
)
def test_a_process_gets_fewer_the_fewer_are_left(left: int, processes: int, count: int) -> None:
    assert at_once(left, processes) == count


def test_what_waits_and_long_units_begin_first() -> None:
    tests = ["tests/beehive/test_codec.py::a", f"{TOGETHER[0]}x", f"{WAITS[1]}::c", "tests/end_to_end/test_log.py::b"]
    assert sorted(tests, key=turn) == tests[::-1]


def _scheduling(processes: list[Process], tests: list[str] = TESTS) -> Scheduling:
    config = SimpleNamespace(
        getvalue=lambda _: ["popen"] * len(processes), option=SimpleNamespace(loadscopereorder=False)
    )
    made = Scheduling(config)
    for each in processes:
        made.add_node(each)
        made.add_node_collection(each, tests)
    made.schedule()
    return made


def test_half_of_the_processes_run_tests_that_wait_until_nothing_else_is_left() -> None:
    waiting = [f"tests/end_to_end/test.py::test[{number}]" for number in range(12)]
    processes = [Process(name) for name in "abcd"]
    scheduling = _scheduling(processes, waiting + TESTS)
    ran = dict.fromkeys(processes, 0)

    def have_waiting() -> list[bool]:
        return [any(index < len(waiting) for index in each.given[ran[each] :]) for each in processes]

    def run(process: Process) -> None:
        ran[process] += 1
        scheduling.mark_test_complete(process, process.given[ran[process] - 1])

    assert have_waiting() == [True, True, False, False]
    for each in processes[2:] * len(TESTS):
        if ran[each] < len(each.given):
            run(each)
    assert {index for each in processes[2:] for index in each.given} > set(range(len(waiting), len(waiting + TESTS)))
    while any(ran[each] < len(each.given) for each in processes):
        for each in processes:
            if ran[each] < len(each.given):
                run(each)
    assert sorted(index for each in processes for index in each.given) == list(range(len(waiting + TESTS)))


def test_a_process_gets_one_long_unit_at_a_time() -> None:
    processes = [Process("a"), Process("b")]
    _scheduling(processes, [f"{place}{number}" for place in TOGETHER[:6] for number in range(3)] + TESTS)
    assert [each.given for each in processes] == [[0, 1, 2], [3, 4, 5]]


def test_all_tests_that_share_a_browser_are_run_by_one_process() -> None:
    processes = [Process("a"), Process("b")]
    _scheduling(processes, [f"{file}::test" for file in BROWSER] + TESTS)
    first, second = (each.given for each in processes)
    assert first == list(range(len(BROWSER)))
    assert not {*first} & {*second}


def test_tests_of_a_dead_process_are_run_by_others_except_its_last() -> None:
    dies, lives = Process("dies"), Process("lives")
    scheduling = _scheduling([dies, lives])
    ran, killer = dies.given[:2]
    scheduling.mark_test_complete(dies, ran)
    assert scheduling.remove_node(dies) == TESTS[killer]
    replacement = Process("replacement")
    scheduling.add_node(replacement)
    for index in lives.given:  # it gets more while it runs
        scheduling.mark_test_complete(lives, index)
    assert sorted([*lives.given, ran, killer]) == list(range(len(TESTS)))
    assert not replacement.given
    scheduling.add_node_collection(replacement, TESTS)
    scheduling.schedule()
    assert replacement.shutting_down
    assert scheduling.tests_finished


def test_the_successor_of_a_dead_process_runs_the_only_test_that_is_left() -> None:
    """It would wait for ever for the test after it."""
    dies, lives, replacement = (Process(name) for name in ("dies", "lives", "replacement"))
    scheduling = _scheduling([dies, lives], TESTS[:4])
    for index in list(lives.given):
        scheduling.mark_test_complete(lives, index)
    scheduling.remove_node(dies)
    scheduling.add_node(replacement)
    scheduling.add_node_collection(replacement, TESTS[:4])
    scheduling.schedule()
    assert (len(replacement.given), replacement.shutting_down) == (1, True)
