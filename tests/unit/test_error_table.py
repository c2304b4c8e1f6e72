"""The table of errors agrees with the protocol, with its documentation, and with the classes of both sides."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import grpc
import pytest
import rowlock.errors
import rowlock_regionserver.errors
from rowlock_proto.errors import ERRORS, ErrorClass, ErrorRow
from rowlock_proto.v1 import types_pb2

CODED = {row.code.name: row for row in ERRORS if row.code is not None}
CLIENT = rowlock.errors
SERVER = rowlock_regionserver.errors
PROTO = Path(types_pb2.__file__).with_name("types.proto")


def classes() -> Iterator[tuple[ModuleType, ErrorClass, ErrorRow]]:
    """Each class of the table with its module and its row."""
    for row in ERRORS:
        if row.client is not None:
            yield CLIENT, row.client, row
        if row.server is not None:
            yield SERVER, row.server, row


def public_bases(kind: type) -> Iterator[str]:
    """The names of the base classes; in place of one that only shares a constructor, those of its own."""
    for base in kind.__bases__:
        if base.__name__.startswith("_"):
            yield from public_bases(base)
        else:
            yield base.__name__


def test_each_code_of_the_protocol_has_one_row_with_a_class_on_either_side_and_a_status() -> None:
    codes = [row.code.name for row in ERRORS if row.code is not None]
    assert sorted(["CODE_UNSPECIFIED", *codes]) == sorted(types_pb2.Error.Code.keys())
    for row in CODED.values():
        assert row.code is not None
        assert row.code.status in grpc.StatusCode.__members__, row
        assert row.client is not None, row
        assert row.server is not None, row


@pytest.mark.parametrize("module", [CLIENT, SERVER], ids=lambda module: module.__name__)
def test_each_exception_of_a_side_has_one_row(module: ModuleType) -> None:
    kinds = [kind for kind in vars(module).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    written = [kind.__name__ for kind in kinds if not kind.__name__.startswith("_")]
    assert sorted(kind.name for where, kind, _ in classes() if where is module) == sorted(written)


@pytest.mark.parametrize(
    ("module", "kind", "row"), [pytest.param(*each, id=f"{each[0].__name__}.{each[1].name}") for each in classes()]
)
def test_each_class_matches_its_row(module: ModuleType, kind: ErrorClass, row: ErrorRow) -> None:
    """For classes that are written by hand; the others are generated."""
    written: type[Exception] = getattr(module, kind.name)
    assert ", ".join(public_bases(written)) == kind.parents
    assert written.can_retry == row.can_retry  # type: ignore[attr-defined]  # each root has it
    assert (inspect.getdoc(written) or "").splitlines()[0] == (kind.summary or row.summary)


def test_the_protocol_documents_the_status_of_each_code() -> None:
    """In the table of types.proto, which is all that an author of another client has."""
    documented = re.findall(r"^//   ([A-Z_]+) +([A-Z_]+) +\S", PROTO.read_text(), flags=re.MULTILINE)
    assert sorted(documented) == sorted((name, row.code.status) for name, row in CODED.items() if row.code)
