"""Which handler a message gets: the table of specificity, and what is refused when the class is made."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Header, Message, Module, Operation, OverflowPolicy, ResourceType, Route, Side, handles
from beehive.handlers import HandlerTable


def chosen(owner: type[object], resource: str, operation: str, source: str, side: Side = Side.EDGE) -> str | None:
    """Name of the method that takes such a message."""
    route = Route(source=source, operation=operation, resource=resource)
    handler = HandlerTable(owner, side).find(Message(Header(), route))
    return None if handler is None else handler.call.__name__


class Eight:
    """One handler for each combination of given and omitted."""

    @handles(ResourceType.POD, Operation.INSERT, source="edgehub")
    def type_operation_source(self, message: Message) -> None: ...

    @handles(ResourceType.POD, Operation.INSERT)
    def type_operation(self, message: Message) -> None: ...

    @handles(ResourceType.POD, source="edgehub")
    def type_source(self, message: Message) -> None: ...

    @handles(ResourceType.POD)
    def type_only(self, message: Message) -> None: ...

    @handles(None, Operation.INSERT, source="edgehub")
    def operation_source(self, message: Message) -> None: ...

    @handles(None, Operation.INSERT)
    def operation_only(self, message: Message) -> None: ...

    @handles(source="edgehub")
    def source_only(self, message: Message) -> None: ...

    @handles()
    def anything(self, message: Message) -> None: ...


@pytest.mark.parametrize(
    ("resource", "operation", "source", "name"),
    [
        ("ns/pod/a", "insert", "edgehub", "type_operation_source"),
        ("ns/pod/a", "insert", "other", "type_operation"),
        ("ns/pod/a", "update", "edgehub", "type_source"),
        ("ns/pod", "update", "other", "type_only"),
        ("ns/secret/a", "insert", "edgehub", "operation_source"),
        ("ns/secret/a", "insert", "other", "operation_only"),
        ("ns/secret/a", "update", "edgehub", "source_only"),
        ("no grammar at all//", "update", "other", "anything"),
    ],
)
def test_the_most_specific_mark_wins(resource: str, operation: str, source: str, name: str) -> None:
    """Type counts before operation, operation before source."""
    assert chosen(Eight, resource, operation, source) == name


@given(st.lists(st.sampled_from(list(itertools.product((True, False), repeat=3))), unique=True))
def test_a_field_without_a_value_in_a_mark_matches_everything(marks: list[tuple[bool, bool, bool]]) -> None:
    """Of several matching marks, type is more specific than operation, and operation than source."""
    namespace = {}
    for given_fields in marks:

        def one(self: object, message: Message) -> None: ...

        one.__name__ = repr(given_fields)
        mark = handles(
            "pod" if given_fields[0] else None,
            *(["insert"] if given_fields[1] else []),
            source="s" if given_fields[2] else None,
        )
        namespace["m" + "".join(str(int(field)) for field in given_fields)] = mark(one)
    owner = type("Owner", (), namespace)
    expected = repr(max(marks)) if marks else None
    assert chosen(owner, "ns/pod/a", "insert", "s") == expected


def test_two_equal_marks_are_an_error_when_the_class_is_made() -> None:
    """Not when the message comes."""
    with pytest.raises(TypeError, match="second handler"):

        class Twice(Module):
            name = "twice"

            @handles(ResourceType.POD)
            def one(self, message: Message) -> None: ...

            @handles(ResourceType.POD)
            def two(self, message: Message) -> None: ...


def test_one_method_may_have_several_marks_and_subclasses_inherit_them() -> None:
    """Operations are listed in one mark, other types in another; a subclass has them too."""

    class Base:
        @handles(ResourceType.POD, Operation.INSERT, Operation.UPDATE)
        @handles(ResourceType.SECRET, overflow=OverflowPolicy.STATE)
        def many(self, message: Message) -> None: ...

    class Derived(Base):
        @handles(ResourceType.NODE)
        def node(self, message: Message) -> None: ...

    for resource, operation in (("n/pod/a", "insert"), ("n/pod/a", "update"), ("n/secret/a", "delete")):
        assert chosen(Derived, resource, operation, "") == "many"
    assert chosen(Derived, "n/pod/a", "delete", "") is None
    assert chosen(Derived, "null/node/a", "delete", "") == "node"


def test_the_side_decides_how_the_resource_is_read() -> None:
    """On the cloud the type comes after the node, on the edge after the namespace."""
    assert chosen(Eight, "node/n1/default/pod/a", "x", "", Side.CLOUD) == "type_only"
    assert chosen(Eight, "node/n1/default/pod/a", "x", "", Side.EDGE) == "anything"


def test_the_memory_of_lookups_is_bounded() -> None:
    """Names, types and operations come from outside: a million of them must not stay."""
    table = HandlerTable(Eight, Side.EDGE)
    for number in range(10_000):
        assert table.find(Message(route=Route(resource=f"ns/pod/{number}", operation="insert"))) is not None
    assert len(table.known) == 1
    for number in range(10_000):
        table.find(Message(route=Route(resource="ns/pod/a", operation=f"insert-{number}")))
    assert len(table.known) <= 4096
