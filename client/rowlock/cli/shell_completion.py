"""The command completion: scripts for bash, zsh and fish, and what they ask on each press of the tab key.

Such a script calls `rowlock __complete SHELL ...`, which prints one candidate a line, and nothing else: an error at a
key press would disturb the line that is being typed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.candidates import Candidate, candidates
from rowlock.cli.server_names import ServerNames
from rowlock.cli.session import Call, Session
from rowlock.cli.words import quoted_for_bash, unfinished

if TYPE_CHECKING:
    from rowlock import Client

_SECONDS = 2.0

# bash splits words at ':' and '=', so the command splits the line itself.
_BASH = r"""_rowlock() {
    local IFS=$'\n'
    COMPREPLY=( $(rowlock __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null) )
}
complete -o nospace -o nosort -F _rowlock rowlock 2>/dev/null ||
    complete -o nospace -F _rowlock rowlock
"""
_ZSH = r"""#compdef rowlock
_rowlock() {
    local -a whole open
    local line
    for line in "${(@f)$(rowlock __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            w*) whole+=("${line[2,-1]}") ;;
            o*) open+=("${line[2,-1]}") ;;
        esac
    done
    (( ${#whole} )) && compadd -- "${whole[@]}"
    (( ${#open} )) && compadd -S '' -- "${open[@]}"
    return 0
}
if [ "${funcstack[1]}" = "_rowlock" ]; then
    _rowlock "$@"
else
    compdef _rowlock rowlock
fi
"""
_FISH = r"""function __rowlock_complete
    set -l words (commandline -opc) (commandline -ct)
    rowlock __complete fish $words[2..-1] 2>/dev/null
end
complete -c rowlock -f -a '(__rowlock_complete)'
"""
SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(call: Call, shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", show_default=False)]) -> None:
    """Prints the script that completes this command in a shell.

    bash: eval "$(rowlock completion bash)" in ~/.bashrc. zsh: eval "$(rowlock completion zsh)" in ~/.zshrc, after
    compinit. fish: rowlock completion fish > ~/.config/fish/completions/rowlock.fish

    It completes commands, options, tables, families, columns, rows, snapshots and files. Names are those of the server
    in --server or $ROWLOCK_SERVER.

    --json: {"shell", "script"}
    """
    if shell not in SCRIPTS:
        raise ArgumentError(f"there is completion for {', '.join(SCRIPTS)}, and not for {shell!r}")
    call.output.record({"shell": shell, "script": SCRIPTS[shell]}, SCRIPTS[shell].rstrip("\n"))


def complete(arguments: Sequence[str], session: Session, commands: Mapping[str, Callable[..., Any]]) -> Iterator[str]:
    """Yields the lines that a script asks for. arguments: the shell, and its line or words up to the cursor."""
    if len(arguments) < 2:
        return
    shell, *rest = arguments
    if shell == "bash":
        yield from _for_bash(rest[0], rest[1] if len(rest) > 1 else "", session, commands)
        return
    *words, typed = rest
    if shell == "zsh" and typed[:1] in ("'", '"'):
        # zsh leaves the quote that is open at the cursor.
        typed = typed[1:]
    elif shell == "fish":
        # fish gives the word at the cursor as it is typed, with its quotes.
        typed = unfinished(typed, is_bash=True).typed
    for found in _found(words, typed, session, commands):
        if shell == "zsh":
            yield ("w" if found.is_whole else "o") + found.text
        else:
            yield f"{found.text}\t{found.hint}" if found.hint else found.text


def _for_bash(
    line: str, typed_last: str, session: Session, commands: Mapping[str, Callable[..., Any]]
) -> Iterator[str]:
    """typed_last: the end of the word at the cursor that bash replaces."""
    before = unfinished(line, is_bash=True)
    at_cursor = line[len(line) - before.length :]
    # What bash leaves of the word, which it has split at ':' and '='.
    kept = at_cursor[: len(at_cursor) - len(typed_last)] if at_cursor.endswith(typed_last) else ""
    for found in _found(before.words[1:], before.typed, session, commands):
        text = quoted_for_bash(found.text, before.quote)
        if before.quote:
            # bash closes the quote itself, and does not break words within one.
            yield text
        else:
            yield text[len(kept) :] + (" " if found.is_whole else "")


def _found(
    words: Sequence[str], typed: str, session: Session, commands: Mapping[str, Callable[..., Any]]
) -> Iterator[Candidate]:
    server = next((value for option, value in itertools.pairwise(words) if option == "--server"), None)

    def connect() -> Client:
        return session.client(server, _SECONDS)

    return candidates(words, typed, commands, ServerNames(connect))
