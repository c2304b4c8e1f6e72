"""What an idempotency table holds, for operators and tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdempotencyStatistics:
    """Known clients, saved answers, bytes of their large cells and of everything, and requests answered from them."""

    clients: int
    saved_answers: int
    cell_bytes: int
    bytes_held: int
    repeated: int
