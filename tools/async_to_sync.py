"""Generates the sync face of the client from the asyncio face: `rowlock/table.py` from `rowlock/aio/table.py`.

    python -m tools.async_to_sync           # writes the modules of FACES, and the tests of both faces
    python -m tools.async_to_sync --check   # lists stale modules, and exits 1 if there are any

The asyncio face is the source because the conversion only removes words, and never has to guess where to add one. It
edits tokens, not a syntax tree, so comments and layout stay. Then ruff sorts the imports, drops unused ones, and
formats. Where the code of the two faces differs, there is a hand-written module of the same name in `_transport` and in
`aio/_transport`. Where only the wording differs, PASSAGES has both; each must occur exactly once in its source.

The tokens are converted as follows:

    async def, async with, async for     def, with, for
    await x, (await x).y                 x, x.y
    await asyncio.to_thread(f, a)        f(a)
    asyncio.sleep(s)                     time.sleep(s)
    MakingSnapshot(lambda: x)            x, made at once
    a name or phrase of NAMES, PHRASES   its counterpart
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from pathlib import Path

from tools.sync_passages import PASSAGES

ROOT = Path(__file__).resolve().parents[1]
CLIENT = "client/rowlock"

# Modules of rowlock.aio; the sync one has the same name without `aio`.
FACES = (
    "_transport/bulk.py",
    "_transport/finding.py",
    "_transport/kept_mapping.py",
    "_transport/scan_opening.py",
    "_transport/servers.py",
    "_transport/splits.py",
    "_tables/access.py",
    "_tables/changes.py",
    "_tables/ranges.py",
    "_tables/sending.py",
    "_tables/typed_changes.py",
    "batch.py",
    "bulk_write.py",
    "change_feed.py",
    "client.py",
    "lock.py",
    "scan.py",
    "session.py",
    "_change_calls.py",
    "_ending_call.py",
    "_locked_call.py",
    "_region_calls.py",
    "_session_calls.py",
    "_snapshot_calls.py",
    "snapshot.py",
    "table.py",
    "typed_batch.py",
    "typed_bulk_write.py",
    "typed_scan.py",
    "typed_table.py",
)

# The tests of both faces: those in `blocking` are generated from those in `awaited`.
TESTS = "tests/unit/client"

NAMES: Mapping[str, str] = {
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "MakingBulkWrite": "BulkWrite",
    "MakingLock": "Lock",
    "MakingSession": "Session",
    "MakingSnapshot": "Snapshot",
    "MakingTypedBulkWrite": "TypedBulkWrite",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclosing": "closing",
    "aiter": "iter",
    "anext": "next",
    "asyncio": "time",
}
# In code, text and comments alike; the longer ones first.
PHRASES: Mapping[str, str] = {
    "grpc.aio.AioRpcError": "grpc.RpcError",
    "from rowlock.aio._unfinished import MakingBulkWrite, MakingLock, MakingSession, MakingTypedBulkWrite\n": "",
    "rowlock.aio.lock import take_lock": "rowlock.lock import Lock, take_lock",
    "rowlock.aio._unfinished import MakingSnapshot": "rowlock.snapshot import Snapshot",
    "rowlock.aio.": "rowlock.",
    "Awaitable[object]]": "object]",
    "Awaitable[T]]": "T]",
    "`async with": "`with",
    "`async for": "`for",
    "(asyncio)": "(threads)",
}
# Names of the asyncio face for a value that is not created yet.
_UNFINISHED = ("MakingBulkWrite", "MakingLock", "MakingSession", "MakingSnapshot", "MakingTypedBulkWrite")

# Rules that ruff fixes: duplicate, unsorted or unused imports, `[x for x in y]`, loops that yield, nested `with`.
_FIXES = "I,F401,UP028,C416,SIM117"

# Before Python 3.12 an f-string is a string.
_FSTRING_START, _FSTRING_END = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)
_SEEN = {tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING, _FSTRING_START}
_CHAIN = {".", "(", ")", "[", "]"}
_Edit = tuple[int, int, str]


def to_sync(source: str, passages: Mapping[str, str]) -> str:
    """Returns the sync module of an asyncio module, with unsorted imports and unformatted."""
    for awaited, blocking in passages.items():
        if source.count(awaited) != 1:
            raise SystemExit(f"async_to_sync: this passage occurs {source.count(awaited)} times, not once:\n{awaited}")
        source = source.replace(awaited, blocking)
    for awaited, blocking in PHRASES.items():
        source = source.replace(awaited, blocking)
    for start, stop, text in sorted(_edits(source), reverse=True):
        source = source[:start] + text + source[stop:]
    return source


class _Tokens:
    """The names, operators and literals of a module, with their offsets; an f-string is one token on every Python."""

    def __init__(self, source: str) -> None:
        lines = [0]
        for line in source.splitlines(keepends=True):
            lines.append(lines[-1] + len(line))
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.stops: list[int] = []
        depth = 0  # of f-strings
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            depth -= token.type == _FSTRING_END
            if token.type in _SEEN and depth == 0:
                self.texts.append(token.string)
                self.starts.append(lines[token.start[0] - 1] + token.start[1])
                self.stops.append(lines[token.end[0] - 1] + token.end[1])
            depth += token.type == _FSTRING_START

    def are(self, at: int, *texts: str) -> bool:
        return tuple(self.texts[at : at + len(texts)]) == texts

    def closing(self, at: int) -> int:
        """Returns the place of the bracket that closes the one at this place."""
        return next(number for number, depth in self._depths(at) if depth == 0)

    def comma(self, at: int) -> int | None:
        """Returns the first comma between the brackets that open at this place, if there is one."""
        return next((n for n, depth in self._depths(at) if depth == 1 and self.texts[n] == ","), None)

    def _depths(self, at: int) -> Iterator[tuple[int, int]]:
        """Yields the bracket depth of each token, from an opening bracket to the closing one."""
        depth = 0
        for number in range(at, len(self.texts)):
            depth += (self.texts[number] in ("(", "[", "{")) - (self.texts[number] in (")", "]", "}"))
            yield number, depth
            if depth == 0:
                return

    def is_one_call(self, at: int) -> bool:
        """Returns whether the brackets at this place hold only `await f.g(...)`, and `.` or `[` follows them."""
        inside = [number for number, depth in self._depths(at) if depth == 1][2:]
        closing = self.closing(at)
        if not (self.are(closing + 1, ".") or self.are(closing + 1, "[")):
            return False
        texts = [self.texts[number] for number in inside]
        return all(text in _CHAIN or (text.isidentifier() and not iskeyword(text)) for text in texts)


def _edits(source: str) -> Iterator[_Edit]:
    tokens = _Tokens(source)
    starts, stops = tokens.starts, tokens.stops
    done: set[int] = set()
    for at, text in enumerate(tokens.texts):
        if at in done:
            continue
        if text in ("async", "await"):
            yield starts[at], starts[at + 1], ""
            if text == "await" and tokens.are(at - 1, "(") and tokens.is_one_call(at - 1):
                closing = tokens.closing(at - 1)
                yield starts[at - 1], stops[at - 1], ""
                yield starts[closing], stops[closing], ""
        elif tokens.are(at, "asyncio", ".", "to_thread", "("):
            done.update(range(at, at + 4))
            comma = tokens.comma(at + 3)
            yield starts[at], stops[at + 3], ""
            if comma is None:
                yield starts[tokens.closing(at + 3)], starts[tokens.closing(at + 3)], "("
            else:
                yield starts[comma], starts[comma + 1], "("
        elif text in _UNFINISHED and tokens.are(at + 1, "(", "lambda", ":"):
            done.add(at)
            closing = tokens.closing(at + 1)
            yield starts[at], starts[at + 4], ""
            yield starts[closing], stops[closing], ""
        elif text in NAMES:
            yield starts[at], stops[at], NAMES[text]


def made(source: Path, target: Path, passages: Mapping[str, str]) -> str:
    """Returns the text that the target should have."""
    name = source.relative_to(ROOT).as_posix()
    text = f"# Made from {name} by tools/async_to_sync.py: change that, then `make faces`.\n"
    text += to_sync(source.read_text(), passages)
    text = _ruff(text, target, "check", "--quiet", "--fix", "--unsafe-fixes", "--select", _FIXES, "--exit-zero")
    return _ruff(text, target, "format", "--quiet")


def _ruff(text: str, target: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", f"--stdin-filename={target}", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def pairs() -> Iterator[tuple[Path, Path, Mapping[str, str]]]:
    """Yields the source, the target and the differing passages of each generated module."""
    for name in FACES:
        yield ROOT / CLIENT / "aio" / name, ROOT / CLIENT / name, PASSAGES.get(name, {})
    for source in sorted((ROOT / TESTS / "awaited").glob("test_*.py")):
        yield source, ROOT / TESTS / "blocking" / source.name, PASSAGES.get(f"blocking/{source.name}", {})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Generates the sync face of the client from the asyncio face.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a module is stale")
    is_check = parser.parse_args(arguments).check
    stale = []
    for source, target, passages in pairs():
        text = made(source, target, passages)
        if target.is_file() and target.read_text() == text:
            continue
        stale.append(str(target.relative_to(ROOT)))
        if not is_check:
            target.write_text(text)
    if stale and is_check:
        sys.stderr.write(f"stale: {', '.join(stale)}; run 'make faces'\n")
    return int(bool(stale) and is_check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
