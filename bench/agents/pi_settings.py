"""Pi's two configuration files for one session, after its own documentation (docs/models.md, docs/settings.md of 1.6.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.contracts import SessionRequest

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

ASSUMED_WINDOW = 128_000
"""What Pi assumes of a model that tells no window, in tokens."""

TOOLS = ("read", "bash", "edit", "write")
"""Pi's own default, written down so that it stays."""

_RESERVE_TOKENS = 16_384
_RECENT_TOKENS = 20_000
"""Pi's own defaults, for windows that are large enough for them."""

_KEPT_FREE_TOKENS = 4_096
"""Of every request's window Pi leaves so many to mistakes of its estimate: an answer gets what is left beyond them."""

_MILLISECONDS_MAX = 2**31 - 1
"""A longer timer of Node's fires at once."""


def models_json(
    request: SessionRequest, *, window: int, url: str, sampling: Mapping[str, float | int]
) -> dict[str, Any]:
    """One provider with one model: the engine behind the relay. The key is a word that nobody checks."""
    model = {
        "id": request.model,
        "name": request.model,
        "reasoning": True,
        "input": ["text"],
        "contextWindow": window,
        "maxTokens": request.output_tokens_per_request,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "samplingParams": dict(sampling),
    }
    compat = {
        "supportsDeveloperRole": False,
        "supportsStore": False,
        "supportsReasoningEffort": True,
        "supportsUsageInStreaming": True,
        "maxTokensField": "max_tokens",
    }
    provider = {
        "baseUrl": f"{url}/v1",
        "api": "openai-completions",
        "apiKey": "none",
        "compat": compat,
        "models": [model],
    }
    return {"providers": {"local": provider}}


def settings_json(request: SessionRequest, *, window: int) -> dict[str, Any]:
    """No second tries, no time limits of its own within the session's, compaction where the window really ends.

    Pi summarises once the context is within `reserveTokens` of the window. That is what it keeps free, and room for
    an answer: with less, the last answers before a compaction would be cut at one token. What it then keeps of the
    history must be well below the point where it would summarise again.
    """
    milliseconds = min(int(request.seconds * 1000) + 60_000, _MILLISECONDS_MAX)
    reserve = min(_RESERVE_TOKENS, _KEPT_FREE_TOKENS + window // 8)
    recent = min(_RECENT_TOKENS, max(window - reserve, 0) // 4)
    return {
        "retry": {"enabled": False, "maxRetries": 0, "provider": {"maxRetries": 0, "timeoutMs": milliseconds}},
        "httpIdleTimeoutMs": milliseconds,
        "compaction": {
            "enabled": True,
            "reserveTokens": reserve,
            "keepRecentTokens": recent,
        },
        "defaultTools": list(TOOLS),
        "enableInstallTelemetry": False,
        "defaultProjectTrust": "never",
        "cacheWarming": "off",
    }
