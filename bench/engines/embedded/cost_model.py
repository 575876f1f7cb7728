"""What the embedded engine's work would cost: the stated model from which all of its times come.

Nothing here reads a clock. Figures are of the size that a 27B model with 4-bit weights shows on a laptop with
unified memory: about 40 output tokens a second with drafts, 80,000 bytes of state a token.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Speeds of the modelled machine. Every result is in seconds, rounded to whole microseconds."""

    prefill_tokens_per_second: float = 1_500.0
    decode_step_seconds: float = 0.085
    """One step verifies all drafted tokens at once and gives one token more than it accepts."""

    ram_bytes_per_second: float = 20e9
    ssd_bytes_per_second: float = 2e9

    def prefill_seconds(self, computed_tokens: int) -> float:
        return round(computed_tokens / self.prefill_tokens_per_second, 6)

    def restore_seconds(self, *, ram_bytes: int, ssd_bytes: int) -> float:
        """Bringing cached state back: from the RAM tier a copy, from the SSD tier a read."""
        return round(ram_bytes / self.ram_bytes_per_second + ssd_bytes / self.ssd_bytes_per_second, 6)

    def decode_seconds(self, steps: int) -> float:
        """From the first token to the last; the first one comes out of prefill and costs no step."""
        return round(steps * self.decode_step_seconds, 6)
