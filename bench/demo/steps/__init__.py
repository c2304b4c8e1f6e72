"""The steps of the demo, one module each, in order.

A step changes or reads the tables, prints its rates, compares, and updates `state.expected`.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.demo.state import DemoState
from bench.demo.steps import correct, count, load, look_up, prove

STEPS: tuple[tuple[str, Callable[[DemoState], None]], ...] = (
    ("Load all flights", load.load),
    ("Look flights up by key and by prefix", look_up.look_up),
    ("Correct delays, with two writers competing for each flight", correct.correct),
    ("Count flights by carrier and airport, and kill the server in the middle", count.count),
    ("Scan the table and compare every value with the source", prove.prove),
)
