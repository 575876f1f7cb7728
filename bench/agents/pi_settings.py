"""Pi's two configuration files for one session, after its own documentation (docs/models.md, docs/settings.md of 1.6.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.contracts import SessionRequest

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

_PI_WINDOW = 128_000
"""What Pi assumes of a model that tells no window."""

_RESERVE_TOKENS = 16_384
_RECENT_TOKENS = 20_000


def window(request: SessionRequest) -> int:
    """Tokens that Pi is told one request may take: the engine's own figure where it reports one."""
    return request.context_window or _PI_WINDOW


def models_json(request: SessionRequest, *, url: str, sampling: Mapping[str, float | int]) -> dict[str, Any]:
    """One provider with one model: the engine behind the relay. The key is a word that nobody checks."""
    model = {
        "id": request.model,
        "name": request.model,
        "reasoning": True,
        "input": ["text"],
        "contextWindow": window(request),
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


def settings_json(request: SessionRequest) -> dict[str, Any]:
    """No second tries, no time limits of its own within the session's, compaction where the window really ends."""
    milliseconds = int(request.seconds * 1000) + 60_000
    quarter = window(request) // 4
    return {
        "retry": {"enabled": False, "maxRetries": 0, "provider": {"maxRetries": 0, "timeoutMs": milliseconds}},
        "httpIdleTimeoutMs": milliseconds,
        "compaction": {
            "enabled": True,
            "reserveTokens": min(_RESERVE_TOKENS, quarter),
            "keepRecentTokens": min(_RECENT_TOKENS, quarter),
        },
        "enableInstallTelemetry": False,
        "defaultProjectTrust": "never",
        "cacheWarming": "off",
    }
