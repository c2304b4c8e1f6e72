"""Completion: what fits at the cursor, in the interactive shell and for bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rowlock import Client, Mapping
from rowlock.cli.candidates import candidates
from rowlock.cli.commands import COMMANDS
from rowlock.cli.prompt_completer import PromptCompleter
from rowlock.cli.server_names import ServerNames
from rowlock.cli.shell_completion import SCRIPTS, complete
from rowlock.cli.words import Unfinished, quoted, quoted_for_bash, unfinished, words_of
from rowlock.schema import Family, Region, TableDescription
from rowlock.status import ServerStatus, SnapshotStatus

from tests.unit.cli.recording import Console, RecordingClient

MAPPING = Mapping("user STRING :key, orders BIGINT count:orders, score DOUBLE model:score")
FLIGHTS = Mapping("carrier STRING :key, number INT :key, delay INT info:delay")


class FixedNames:
    """A server with two tables."""

    def tables(self) -> Sequence[str]:
        return ["orders", "other", "people"]

    def families(self, table: str) -> Sequence[str]:
        return {"orders": ["info", "stats"]}.get(table, [])

    def columns(self, table: str, mapping: str | None) -> Sequence[str]:
        if mapping is not None:
            return [f"of {mapping}"]
        return {"orders": ["info:", "info:delay", "stats:"]}.get(table, [])

    def rows(self, table: str, typed: str, mapping: str | None) -> Sequence[str]:
        return {"orders": ["UA|1", "UA|2", "it's a row"]}.get(table, [])

    def regions(self, table: str) -> Sequence[str]:
        return {"orders": ["4", "5"]}.get(table, [])

    def borders(self, table: str) -> Sequence[str]:
        return {"orders": ["UA|2"]}.get(table, [])

    def snapshots(self) -> Sequence[str]:
        return ["ab" * 16]

    def named_snapshots(self) -> Sequence[str]:
        return ["noon"]

    def sessions(self) -> Sequence[str]:
        return ["load-42"]

    def compactions(self) -> Sequence[str]:
        return ["7"]


def found(line: str) -> list[str]:
    """The candidates before a `^` for the end of the line; those that go on end with an ellipsis."""
    before = unfinished(line)
    listed = candidates(before.words, before.typed, COMMANDS, FixedNames())
    return [each.text + ("" if each.is_whole else "...") for each in listed]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("t", ["tables", "truncate"]),
        ("help tr", ["truncate"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("--", ["--help", "--json", "--server", "--timeout", "--version"]),
        ("--server host:1 --json tab", ["tables"]),
        ("--server ", []),
        ("get ", ["orders", "other", "people"]),
        ("get o", ["orders", "other"]),
        ("--timeout 5 get o", ["orders", "other"]),
        ("get orders ", ["UA|1", "UA|2", "it's a row"]),
        ("get orders UA", ["UA|1", "UA|2"]),
        ("get orders r ", ["info:...", "info:delay", "stats:..."]),
        ("get orders r info:a s", ["stats:..."]),
        ("get orders r --json info:d", ["info:delay"]),
        ("get orders r --v", ["--versions"]),
        ("get orders r --versions 3 --v", []),
        ("get orders r --row UA", ["UA|1", "UA|2"]),
        ("get orders --row x --row ", ["UA|1", "UA|2", "it's a row"]),
        ("get orders r --mapping ", ["none"]),
        ("get orders r -m M ", ["of M"]),
        ("get orders r -- --", []),
        ("put orders r ", ["info:...", "info:delay=...", "stats:..."]),
        ("put orders r info:delay=5 info:d", ["info:delay=..."]),
        ("increment orders r info:d", ["info:delay"]),
        ("increment orders r info:delay ", []),
        ("scan orders --where info:d", ["info:delay..."]),
        ("scan orders --where x --wh", ["--where"]),
        ("scan orders --snapshot ", ["ab" * 16]),
        ("scan orders --prefix UA", ["UA|1", "UA|2"]),
        ("snapshots ", ["create", "restore", "drop"]),
        ("snapshots dr", ["drop"]),
        ("snapshots create ", []),
        ("snapshots create noon o", ["orders", "other"]),
        ("snapshots create noon orders ", []),
        ("snapshots restore ", ["noon"]),
        ("snapshots restore noon ", []),
        ("snapshots drop ", ["noon"]),
        ("snapshots nonsense ", []),
        ("sessions ", ["end"]),
        ("sessions end ", ["load-42"]),
        ("sessions end load-41 ", ["load-42"]),
        ("compactions --cancel ", ["7"]),
        ("split orders ", ["UA|1", "UA|2", "it's a row"]),
        ("split orders --region ", ["4", "5"]),
        ("merge orders ", ["UA|2"]),
        ("merge other ", []),
        ("check-and-mutate orders r --increment info:d", ["info:delay=..."]),
        ("check-and-put orders r info:delay --op ", ["=", "!=", "<", "<=", ">", ">="]),
        ("create ", []),
        ("create t ", []),
        ("create t f --durability ", ["skip", "async", "os", "fsync"]),
        ("alter orders --drop ", ["info", "stats"]),
        ("compact orders --family s", ["stats"]),
        ("export orders x --format ", ["csv", "jsonl", "parquet", "csv.gz", "jsonl.gz"]),
        ("export orders x --cel", ["--cells"]),
        ("export orders x --snapshot ", ["ab" * 16]),
        ("import orders x --sk", ["--skip-rows"]),
        ("tables ", []),
        ("truncate orders ", []),
        ("nonsense ", []),
        ("get nosuch ", []),
    ],
)
def test_what_fits_at_the_cursor(line: str, expected: Sequence[str]) -> None:
    assert found(line) == expected


def test_files_are_candidates(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / "flights.csv").write_text("")
    (folder / "folder").mkdir()
    (folder / ".hidden").write_text("")
    monkeypatch.chdir(folder)
    assert found("import orders f") == ["flights.csv", "folder/..."]
    assert found(f"import orders {folder}/") == [f"{folder}/flights.csv", f"{folder}/folder/..."]
    assert found("import --all f") == ["flights.csv", "folder/..."]
    assert found("export --all fo") == ["folder/..."]
    assert found("import orders .") == [".hidden"]
    assert found("import orders no/such/") == []


def test_every_command_has_candidates_for_its_options() -> None:
    for name in COMMANDS:
        assert {"--json", "--server", "--timeout", "--help"} <= set(found(f"{name} --"))


@pytest.mark.parametrize(
    ("line", "words", "typed", "length", "quote"),
    [
        ("", (), "", 0, ""),
        ("get", (), "get", 3, ""),
        ("get ", ("get",), "", 0, ""),
        ("get 'a row' x", ("get", "a row"), "x", 1, ""),
        ("get 'a ro", ("get",), "a ro", 5, "'"),
        ("get x\"a 'b", ("get",), "xa 'b", 6, '"'),
        (r"get a\x00", ("get",), r"a\x00", 5, ""),
        ("get ''", ("get",), "", 2, ""),
        ("get '' ", ("get", ""), "", 0, ""),
    ],
)
def test_the_word_at_the_cursor_is_found(
    line: str, words: tuple[str, ...], typed: str, length: int, quote: str
) -> None:
    assert unfinished(line) == Unfinished(words, typed, length, quote)


def test_in_bash_backslashes_quote() -> None:
    assert unfinished(r"get a\ b\|c", is_bash=True) == Unfinished(("get",), "a b|c", 7, "")
    assert unfinished(r"""get 'a\' "b\"c""", is_bash=True) == Unfinished(("get", "a\\"), 'b"c', 5, '"')


@pytest.mark.parametrize("word", ["", "a", "a b", "it's", 'a "b" c', r"a\x00|b", "tab\there"])
def test_a_quoted_word_is_read_again(word: str) -> None:
    assert words_of(f"get {quoted(word)} x") == ["get", word, "x"]


def test_words_are_quoted_for_bash() -> None:
    assert quoted_for_bash("it's a|row:x", "") == r"it\'s\ a\|row:x"
    assert quoted_for_bash("it's", "'") == r"it'\''s"
    assert quoted_for_bash('a"$b', '"') == r"a\"\$b"


def test_the_prompt_completes_with_quotes_and_hints() -> None:
    completer = PromptCompleter(COMMANDS, FixedNames())

    def completions(text: str) -> list[tuple[str, int, str]]:
        listed = completer.get_completions(Document(text), CompleteEvent())
        return [(each.text, each.start_position, each.display_meta_text) for each in listed]

    assert completions("get orders it") == [('"it\'s a row"', -2, "")]
    assert completions("get orders \"it's") == [('"it\'s a row"', -5, "")]
    assert completions("trun") == [("truncate", -4, "Removes all rows of a table; its families stay.")]
    assert completions("scan orders --keys") == [("--keys-only", -6, "Omit the values.")]


# Names of a server


def names_of(client: RecordingClient) -> ServerNames:
    return ServerNames(lambda: cast(Client, client))


@pytest.fixture
def client() -> RecordingClient:
    description = TableDescription("orders", 1, {"stats": Family(), "info": Family()}, "fsync")
    rows = [(b"a\x00", {b"info:x": b""}), (b"b", {b"info:\xff": b"", b"info:x": b""})]
    return RecordingClient({"tables": ["people", "orders"], "describe": description, "scan": rows})


def test_names_come_from_the_server(client: RecordingClient) -> None:
    names = names_of(client)
    assert names.tables() == ["orders", "people"]
    assert names.families("orders") == ["info", "stats"]
    assert names.columns("orders", None) == ["info:", r"info:\xff", "info:x", "stats:"]
    assert names.rows("orders", "a", None) == [r"a\x00", "b"]
    assert client.calls[-1] == ("scan", (), {"prefix": b"a", "limit": 20, "keys_only": True})
    assert names.rows("orders", "a\\", None) == []


def test_columns_and_keys_are_those_of_the_mapping(client: RecordingClient) -> None:
    client.answers["kept_mapping"] = MAPPING
    client.answers["scan"] = [("alice", {}), ("al|x", {}), ("bob", {})]
    names = names_of(client)
    assert names.columns("orders", None) == ["orders", "score"]
    assert names.columns("orders", "k STRING :key, x INT f:x") == ["x"]
    assert "info:" in names.columns("orders", "none")
    assert names.rows("orders", "al", None) == ["alice", "al|x"]
    assert client.calls[-1] == ("scan", (), {"prefix": ("al",), "limit": 1000, "keys_only": True})
    client.answers["kept_mapping"] = FLIGHTS
    client.answers["scan"] = [(("UA", 5), {}), (("UA", 51), {}), (("UA", 7), {})]
    assert names.rows("flights", "UA|5", None) == ["UA|5", "UA|51"]
    assert client.calls[-1][2]["prefix"] == ("UA",)
    assert names.rows("flights", "U", None) == ["UA|5", "UA|51", "UA|7"]
    assert client.calls[-1][2]["prefix"] is None


def test_regions_and_their_borders_are_listed(client: RecordingClient) -> None:
    client.answers["regions"] = [Region(4, "t", b"", b"m\x00", "s"), Region(5, "t", b"m\x00", b"", "s")]
    assert names_of(client).regions("t") == ["4", "5"]
    assert names_of(client).borders("t") == ["m\\x00"]
    client.answers["regions"] = [Region(4, "t", b"", b"", "s")]
    assert names_of(client).borders("t") == []


def test_snapshots_and_compactions_are_listed(client: RecordingClient) -> None:
    snapshot = SnapshotStatus(b"\xab" * 16, "t", 0, 0, 0, 0, 0)
    client.answers["status"] = cast(ServerStatus, type("Status", (), {"snapshots": (snapshot,)}))
    assert names_of(client).snapshots() == ["ab" * 16]
    client.answers["compactions"] = []
    assert names_of(client).compactions() == []


def test_named_snapshots_and_sessions_are_listed(client: RecordingClient) -> None:
    client.answers["named_snapshots"] = [SimpleNamespace(name="noon"), SimpleNamespace(name="ten")]
    assert names_of(client).named_snapshots() == ["noon", "ten"]
    client.answers["sessions"] = [SimpleNamespace(session_id="load-42")]
    assert names_of(client).sessions() == ["load-42"]


def test_an_unreachable_server_completes_nothing() -> None:
    names = names_of(RecordingClient({"tables": ConnectionError(), "kept_mapping": ConnectionError()}))
    assert (names.tables(), names.columns("t", None), names.rows("t", "", None)) == ((), (), ())


def test_stale_names_are_requested_again(client: RecordingClient) -> None:
    now = 100.0
    names = ServerNames(lambda: cast(Client, client), lambda: now)
    assert names.tables() == ["orders", "people"]
    client.answers["tables"] = ["new"]
    assert names.tables() == ["orders", "people"]
    now += 6
    assert names.tables() == ["new"]


# Scripts


def lines(console: Console, *arguments: str) -> Iterator[str]:
    return complete(arguments, console.session, COMMANDS)


def test_bash_gets_what_replaces_its_part_of_the_word(console: Console) -> None:
    console.client.answers.update({"tables": ["orders"], "scan": [(b"UA|1", {b"info:delay": b""})]})
    console.client.answers["describe"] = TableDescription("orders", 1, {"info": Family()}, "fsync")
    assert list(lines(console, "bash", "rowlock tab", "tab")) == ["tables "]
    assert list(lines(console, "bash", "rowlock get orders UA", "UA")) == [r"UA\|1 "]
    assert list(lines(console, "bash", r"rowlock get orders UA\|", r"UA\|")) == [r"UA\|1 "]
    assert list(lines(console, "bash", "rowlock get orders 'UA", "UA")) == ["UA|1"]
    assert list(lines(console, "bash", "rowlock get orders r info:d", "d")) == ["delay "]
    assert list(lines(console, "bash", "rowlock get orders r inf", "inf")) == ["info:", "info:delay "]
    assert list(lines(console, "bash", "rowlock put orders r info:d", "d")) == ["delay="]
    assert list(lines(console, "bash", "rowlock put orders r info:delay=1 info:d", "d")) == ["delay="]
    assert list(lines(console, "bash")) == []


def test_zsh_and_fish_get_whole_words(console: Console) -> None:
    console.client.answers.update({"tables": ["orders"], "scan": [(b"it's", {b"info:delay": b""})]})
    console.client.answers["describe"] = TableDescription("orders", 1, {"info": Family()}, "fsync")
    assert list(lines(console, "zsh", "get", "orders", "")) == ["wit's"]
    assert list(lines(console, "zsh", "get", "orders", '"it')) == ["wit's"]
    assert list(lines(console, "zsh", "get", "orders", "r", "inf")) == ["oinfo:", "winfo:delay"]
    assert list(lines(console, "fish", "get", "orders", "r", "inf")) == ["info:", "info:delay"]
    for typed in ("'it", '"it', r"it\'"):
        assert list(lines(console, "fish", "get", "orders", typed)) == ["it's"]
    assert list(lines(console, "fish", "trunc")) == ["truncate\tRemoves all rows of a table; its families stay."]


def test_the_server_of_the_line_is_asked(console: Console) -> None:
    console.client.answers["tables"] = ["orders"]
    assert list(lines(console, "fish", "--server", "host:1", "get", "o")) == ["orders"]
    assert console.connected == [("host:1", 2.0)]


def test_the_scripts_are_printed(console: Console) -> None:
    for shell, script in SCRIPTS.items():
        assert console.run("completion", shell) == 0
        assert console.out == script
        assert f"rowlock __complete {shell} " in script
    assert console.run("completion", "tcsh") == 2
    assert console.err == "rowlock: there is completion for bash, zsh, fish, and not for 'tcsh'\n"
