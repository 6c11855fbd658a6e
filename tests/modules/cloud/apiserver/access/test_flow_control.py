"""Seats of requests: fair by user, and a 429 for too many."""

import sys
import threading
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from beehive.http.request import Request
from beehive.http.responses import Response, json
from modules.apimachinery.protobuf.decoding import MEDIA as PROTOBUF
from modules.cloud.apiserver.access.flow_control import SEATS, FairSeats, FlowControl, NoSeatError
from modules.cloud.apiserver.access.service import AccessService
from modules.cloud.apiserver.short_turns import short_turns
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.client.calls import APPLY
from modules.cloud.storage.object_storage import LARGE
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.apiserver.endpoints.serving import not_asked

ALICE = User("alice", groups=(ADMINISTRATORS,))
NODE = User("system:node:n1", groups=("system:nodes",))


def get(path: str) -> Request:
    return Request(method="GET", target=path, parts=tuple(path.strip("/").split("/")))


PODS, LEASES = get("/api/v1/pods"), get("/apis/coordination.k8s.io/v1/leases")
LOG = get("/api/v1/namespaces/default/pods/p/log")


def test_users_take_turns() -> None:
    seats, served, threads = FairSeats(seats=1), list[str](), list[threading.Thread]()

    def ask(user: str) -> None:
        with seats.seat(user):
            served.append(user)

    with seats.seat("first"):
        for user, count in (("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)):
            threads.append(threading.Thread(target=ask, args=(user,)))
            threads[-1].start()
            wait_until(lambda user=user, count=count: seats.waiting(user) == count, "it waits")  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert served == ["a", "b", "c", "a", "a"]
    with seats.seat("again"):
        assert seats.waiting("a") == 0


def test_a_seat_that_does_not_come_is_given_up() -> None:
    seats = FairSeats(seats=1, seconds=0.001)
    with seats.seat("a"):
        with pytest.raises(NoSeatError), seats.seat("b"):
            pass
        assert seats.waiting("b") == 0
    with seats.seat("b"):
        pass
    assert not seats._held, "nothing is kept of users without a seat"


def test_a_seat_that_comes_at_the_last_moment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is over, but the seat was given before that was noted: nobody else would get it."""
    seats = FairSeats(seats=1)
    seats._acquire("a", patiently=False)

    class Late:
        """The lock of a request whose wait ends as its seat becomes free."""

        def acquire(self, timeout: float = -1) -> bool:
            if timeout >= 0:
                seats._release("a")
            return timeout < 0

        def release(self) -> None:
            """Say nothing, as the waiting request does not hear it."""

    monkeypatch.setattr(threading, "Lock", Late)
    seats._acquire("b", patiently=False)
    seats._release("b")
    assert seats._free == 1


def test_one_user_does_not_hold_all_seats() -> None:
    """Sixteen requests that waited to be computed beside the API server kept everybody else waiting."""
    flow, pod = FlowControl(waiting=0), get("/api/v1/namespaces/default/pods/p")
    with ExitStack() as stack:
        for user in (ALICE, NODE):
            for _ in range(SEATS // 2):
                stack.enter_context(flow.seat(user, pod, "get"))
            with pytest.raises(NoSeatError), flow.seat(user, pod, "get"):
                pass
        for _ in range(SEATS // 2):
            stack.enter_context(flow.seat(User("bob"), pod, "get"))
        with pytest.raises(NoSeatError), flow.seat(User("eve"), pod, "get"):
            pass


def test_a_user_gives_one_seat_back_at_a_time() -> None:
    seats = FairSeats(seats=3, of_user=2, waiting=0)
    with seats.seat("a"):
        with seats.seat("a"):
            pass
        with seats.seat("a"), pytest.raises(NoSeatError), seats.seat("a"):
            pass


def test_a_seat_goes_to_a_user_who_may_have_one_more() -> None:
    seats, served, gates = FairSeats(seats=3, of_user=2), list[str](), [threading.Event() for _ in range(2)]

    def ask(user: str, gate: threading.Event) -> None:
        with seats.seat(user):
            served.append(user)
            gate.wait()

    with seats.seat("b"), ExitStack() as held:
        for _ in range(2):
            held.enter_context(seats.seat("a"))
        threads = [threading.Thread(target=ask, args=each) for each in zip(("a", "b"), gates, strict=True)]
        for thread, user in zip(threads, ("a", "b"), strict=True):
            thread.start()
            wait_until(lambda user=user: seats.waiting(user) == 1, "it waits")  # type: ignore[misc]
        held.close()
        wait_until(lambda: sorted(served) == ["a", "b"], "both have one")
        for gate in gates:
            gate.set()
        for thread in threads:
            thread.join()
    assert seats._free == 3


class OneUser:
    """Authenticates everybody as one user."""

    def __init__(self, user: User) -> None:
        self.user_of_all = user

    def user(self, _request: Request) -> User:
        return self.user_of_all


class Served:
    """Serves everything."""

    def serve(self, _request: Request) -> Response:
        return json(b"{}")


def test_a_flooding_client_is_asked_to_retry_later_and_nodes_are_served() -> None:
    flow, users = FlowControl(seats=1, waiting=0), OneUser(ALICE)
    service = AccessService(users, Served(), lambda _node: Served(), not_asked, flow=flow)

    def status(request: Request) -> int:
        reply = service.serve(request)
        assert isinstance(reply, Response)
        return reply.status

    with flow.seat(ALICE, PODS, "list"):
        refused: Any = service.serve(PODS)
        assert (refused.status, refused.headers) == (429, (("Retry-After", "1"),))
        for request in (LOG, LEASES):
            assert status(request) == 200, request.path
        users.user_of_all = NODE
        assert status(PODS) == 200
        users.user_of_all = ALICE
    assert status(PODS) == 200


def test_the_service_accounts_of_a_namespace_wait_in_one_line() -> None:
    """20 of them had 20 turns for each one of a person."""
    flow = FlowControl(seats=2, waiting=0)
    accounts = [User(f"system:serviceaccount:shop:{number}") for number in range(3)]
    with flow.seat(accounts[0], PODS, "get"):
        for each in accounts[1:]:
            with pytest.raises(NoSeatError), flow.seat(each, PODS, "get"):
                pass
        with flow.seat(ALICE, PODS, "get"):
            pass


def test_the_seat_is_taken_by_who_is_impersonated() -> None:
    """A proxy that asks in the names of its users has for each of them a seat of their own, as in kube-apiserver."""
    flow, pod = FlowControl(seats=2, waiting=0), get("/api/v1/namespaces/default/pods/p")
    service = AccessService(OneUser(ALICE), Served(), lambda _node: Served(), not_asked, flow=flow)
    as_bob = msgspec.structs.replace(pod, headers=(("impersonate-user", "bob"), ("impersonate-group", ADMINISTRATORS)))
    with flow.seat(ALICE, pod, "get"):
        found: list[Any] = [service.serve(request) for request in (pod, as_bob)]
        assert [each.status for each in found] == [429, 200]


def test_an_object_that_is_called_like_a_stream_needs_a_seat() -> None:
    """Any number of requests for a ConfigMap `log` were served at a time."""
    flow, called = FlowControl(seats=1, waiting=0), get("/api/v1/namespaces/default/configmaps/log")
    service = AccessService(OneUser(ALICE), Served(), lambda _node: Served(), not_asked, flow=flow)
    with flow.seat(ALICE, called, "get"):
        refused = service.serve(called)
    assert isinstance(refused, Response)
    assert refused.status == 429


def test_lists_and_documents_leave_the_seats_of_other_requests_free() -> None:
    """Sixteen long lists of one user computed at once: everybody else waited 5 s for a ConfigMap."""
    flow, document, pod = FlowControl(waiting=0), get("/openapi/v2"), get("/api/v1/namespaces/default/pods/p")
    with flow.seat(ALICE, PODS, "list"), flow.seat(ALICE, document, "get"):
        for request, verb in ((PODS, "list"), (PODS, "watch"), (document, "get")):
            with pytest.raises(NoSeatError), flow.seat(ALICE, request, verb):
                pass
        with flow.seat(ALICE, pod, "get"), flow.seat(NODE, PODS, "list"):
            pass


def test_deletions_of_collections_leave_the_seats_of_lists_free() -> None:
    """Each waits for seconds for the database: two of them kept all lists and watches waiting."""
    flow = FlowControl(waiting=0)
    deletions = [flow.seat(ALICE, PODS, "deletecollection") for _ in range(2)]
    with deletions[0], deletions[1], flow.seat(ALICE, PODS, "list"), flow.seat(ALICE, PODS, "watch"):
        pass


def test_a_further_piece_of_a_list_waits_as_long_as_it_takes() -> None:
    flow, served = FlowControl(seats=1, waiting=0), threading.Event()

    def ask() -> None:
        with flow.turn(ALICE):
            served.set()

    with flow.seat(ALICE, PODS, "list"):
        thread = threading.Thread(target=ask)
        thread.start()
    thread.join()
    assert served.is_set()


def test_the_pieces_of_lists_count_for_the_share_of_a_user() -> None:
    """Who may make pods in a namespace can be each of its service accounts."""
    flow = FlowControl()
    with flow.turn(User("system:serviceaccount:shop:a")), flow.turn(ALICE):
        assert set(flow._lists._held) == {"system:serviceaccount:shop", "alice"}


def _post(body: bytes, media: str = "application/json", method: str = "POST", accept: str = "") -> Request:
    headers = (("content-type", media), ("accept", accept))
    parts = ("api", "v1", "namespaces", "default", "pods")
    return Request(method=method, target="/".join(parts), parts=parts, body=body, headers=headers)


@pytest.mark.parametrize(
    ("large", "small"),
    [
        (_post(b"{}" + b" " * LARGE), _post(b"{}")),
        (_post(b"a: 1", "application/yaml"), _post(b'{"a": 1}', "application/yaml; charset=utf-8")),
        (_post(b"{a: 1}", APPLY, "PATCH"), _post(b'{"a": 1}', APPLY, "PATCH")),
        (_post(b"k8s\0" + b"a" * 5000, PROTOBUF), _post(b"k8s\0a", PROTOBUF)),
        (_post(b"", accept="application/yaml"), _post(b"", "application/yaml")),
    ],
)
def test_large_requests_are_served_one_after_the_other(large: Request, small: Request) -> None:
    """Reading YAML on sixteen threads made everybody else wait for seconds. They leave the other seats free."""
    flow = FlowControl(seats=1, waiting=0)
    with flow.seat(ALICE, large, "create"):
        assert sys.getswitchinterval() == 0.001
        for user in (ALICE, NODE):
            with pytest.raises(NoSeatError), flow.seat(user, large, "create"):
                pass
            with flow.seat(user, small, "create"):
                pass
    assert sys.getswitchinterval() > 0.001
    with flow.seat(ALICE, small, "create"), flow.seat(ALICE, large, "create"):
        pass


def test_threads_take_short_turns_until_the_last_of_several_is_done() -> None:
    before = sys.getswitchinterval()
    one, other = short_turns(), short_turns()
    with one:
        other.__enter__()
    assert sys.getswitchinterval() == 0.001
    other.__exit__(None, None, None)
    assert sys.getswitchinterval() == before
