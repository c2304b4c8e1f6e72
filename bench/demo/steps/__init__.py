"""The steps of the demo, one a module, in order.

A step changes or reads the tables, prints its figures, compares, and keeps `stage.expected` up to date.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.demo.stage import Stage
from bench.demo.steps import correct, count, load, look_up, prove

STEPS: tuple[tuple[str, Callable[[Stage], None]], ...] = (
    ("Load all flights", load.load),
    ("Look flights up by key and by prefix", look_up.look_up),
    ("Correct delays, two writers racing for each", correct.correct),
    ("Count flights by carrier and airport, and kill the server in the middle", count.count),
    ("Scan everything and compare it with the source", prove.prove),
)
