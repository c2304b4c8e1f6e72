"""Which format a file has: csv, jsonl or parquet, the first two perhaps compressed by gzip."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock._codec.escapes import typed
from rowlock.cli.arguments import ArgumentError

# Standard input or output.
STANDARD = "-"
_COMPRESSED = ".gz"
_KINDS = {"csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet"}
SEPARATOR_DEFAULT = ","
# CSV field separators, and how to write each in a shell. None of them occurs in numbers and times.
SEPARATORS = {",": ",", ";": "';'", "|": "'|'", "\t": r"'\t'"}


@dataclass(frozen=True, slots=True)
class Format:
    """A file's format. kind: csv, jsonl or parquet. separator: of the fields of CSV."""

    kind: str
    is_compressed: bool = False
    separator: str = SEPARATOR_DEFAULT


def format_of(name: str, given: str | None, separator: str | None) -> Format:
    """Returns the format of a file: the one that --format gives, else by the file's suffix.

    A file is compressed if its name or the given format ends with .gz. Raises ArgumentError.
    """
    word = (given or name.rpartition("/")[2]).lower()
    is_compressed = word.endswith(_COMPRESSED) or name.lower().endswith(_COMPRESSED)
    word = word.removesuffix(_COMPRESSED)
    kind = _KINDS.get(word if given is not None else word.rpartition(".")[2])
    if kind is None or (given is None and "." not in word):
        raise ArgumentError(
            f"--format must be csv, jsonl or parquet, or csv.gz or jsonl.gz, not {typed(given)}"
            if given is not None
            else "give --format for standard input and output: csv, jsonl or parquet, or csv.gz or jsonl.gz"
            if name == STANDARD
            else f"the format of {name.rpartition('/')[2]} is unknown: give --format csv, jsonl or parquet"
        )
    if kind == "parquet" and is_compressed:
        raise ArgumentError("a Parquet file is compressed inside; leave out .gz")
    return Format(kind, is_compressed, _separator(kind, separator))


def _separator(kind: str, given: str | None) -> str:
    """Returns the field separator. Raises ArgumentError for another character, and for a format without one."""
    if given is None:
        return SEPARATOR_DEFAULT
    if kind != "csv":
        raise ArgumentError(f"--separator is for csv, but the format is {kind}")
    found = "\t" if given == r"\t" else given
    if found not in SEPARATORS:
        raise ArgumentError(rf"--separator must be one of , ; | or \t, not {typed(given)}")
    return found
