"""A process beside the job: it is told what to do by lines of JSON, and answers each with one.

The process's part is `serve`. A mistake there is an answer too, and an SideProcessError on this side.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeAlias, cast

# It may have to tidy up, and HBase takes seconds to remove a table.
_END_SECONDS_MAX = 60.0

Answer: TypeAlias = "dict[str, object]"


class SideProcessError(Exception):
    """What a process beside the job was asked to do failed; the message is its own."""


class SideProcess:
    """Such a process, as a context manager; leaving it ends the process. Used by one thread."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None, "it was started without a pipe to it"
        assert self._process.stdout is not None, "it was started without a pipe from it"
        self._questions = self._process.stdin
        self._answers = self._process.stdout

    def call(self, question: str) -> Answer:
        """Blocks for the answer; raises SideProcessError with the reason when it failed or the process ended."""
        try:
            self._questions.write(question + "\n")
            self._questions.flush()
        except BrokenPipeError:
            raise SideProcessError(f"the process ended before it was asked to {question}") from None
        line = self._answers.readline()
        if not line:
            raise SideProcessError(f"the process ended when it was asked to {question}")
        answer = cast(Answer, json.loads(line))
        if "error" in answer:
            raise SideProcessError(str(answer["error"]))
        return answer

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._questions.close()
            self._process.wait(_END_SECONDS_MAX)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._answers.close()


def serve(questions: dict[str, Callable[[], Answer]]) -> None:
    """Answers each line of standard input by the function of that name, until the input ends."""
    for line in sys.stdin:
        try:
            answer = questions[line.strip()]()
        except Exception as failure:
            traceback.print_exc()
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
