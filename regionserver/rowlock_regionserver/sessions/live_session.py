"""A session that is open, or being ended, as Sessions keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rowlock_regionserver.sessions.session import HeldItem, Holding, SessionInfo, SessionState


@dataclass(slots=True)
class LiveSession:
    """An open or ending session. It expires at `ends_at` on the monotonic clock unless a call uses it."""

    session_id: str
    number: int
    owner: str
    purpose: str
    idle_ms: int
    started_ms: int
    heartbeat_ms: int
    ends_at: float
    state: SessionState = SessionState.OPEN
    use_count: int = 0
    uninterrupted_count: int = 0
    holdings: list[Holding] = field(default_factory=list)

    def expiry(self) -> str:
        """Says why it ends if it expires."""
        return f"it had no heartbeat for {self.idle_ms / 1000:g} s"

    def info(
        self,
        *,
        held: tuple[HeldItem, ...] | None = None,
        state: SessionState | None = None,
        ended_ms: int = 0,
        reason: str = "",
    ) -> SessionInfo:
        return SessionInfo(
            self.session_id,
            self.number,
            self.owner,
            self.purpose,
            state or self.state,
            self.started_ms,
            self.heartbeat_ms,
            self.idle_ms,
            held=tuple([holding.item() for holding in self.holdings]) if held is None else held,
            ended_ms=ended_ms,
            reason=reason,
        )
