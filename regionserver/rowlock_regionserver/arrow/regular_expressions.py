"""Regular expressions over a column of bytes, by RE2: the time is linear in the text, whatever the expression.

RE2 is Arrow's. In bytes mode each byte is a character, and so is each byte of the expression. In text mode both are
UTF-8, and an element that is not UTF-8 does not match. An expression matches anywhere in an element; anchor it with
\\A and \\z for the whole.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import Column, Mask, binary_array, boolean_array
from rowlock_regionserver.arrow.masks import are_utf8, numpy_mask

# A longer one is refused: RE2 compiles it for every window.
EXPRESSION_BYTES_MAX = 1000


def problem_of(expression: bytes, *, is_text: bool) -> str | None:
    """Returns why the expression is malformed; None if it is not."""
    if is_text:
        try:
            expression.decode()
        except UnicodeDecodeError:
            return "it is not UTF-8"
    try:
        # Arrow compiles it only if there is something to match.
        _matches(binary_array([b""]), expression, is_text=is_text)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


def matches_expression(column: Column, expression: bytes, *, is_text: bool) -> Mask:
    """Returns where the expression, which is well-formed, matches in the element."""
    is_utf8 = are_utf8(column) if is_text else None
    if is_utf8 is None or is_utf8.all():
        return _matches(column, expression, is_text=is_text)
    matches = np.zeros(len(column), np.bool_)
    matches[is_utf8] = _matches(column.filter(boolean_array(is_utf8)), expression, is_text=True)
    return matches


def _matches(column: Column, expression: bytes, *, is_text: bool) -> Mask:
    # The stubs say str, but bytes are accepted as they are.
    options = pc.MatchSubstringOptions(expression)  # type: ignore[arg-type]
    values = column.cast(pa.string()) if is_text else column
    return numpy_mask(pc.call_function("match_substring_regex", [values], options))
