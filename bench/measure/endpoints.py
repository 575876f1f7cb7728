"""Which calls of an engine exist for an agent? Exact paths, one method each; slots, metrics, administration do not."""

from __future__ import annotations

from bench.measure.http_wire import RequestHead

MODELS_PATH = "/v1/models"
"""Passes, but asks the model nothing: kept as evidence, in no figure and no summary."""

_ALLOWED = {
    "/v1/chat/completions": "POST",
    "/v1/completions": "POST",
    "/v1/responses": "POST",
    "/v1/messages": "POST",
    MODELS_PATH: "GET",
}


class RefusedError(Exception):
    """A request that is not passed on, with the status that the client gets."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def admitted_path(head: RequestHead) -> str:
    """The path to ask the engine for; a query is dropped. Raises RefusedError (404) for everything else."""
    path = head.target.partition("?")[0]
    if _ALLOWED.get(path) != head.method:
        raise RefusedError(404, f"{head.method} {path[:200]} does not exist here")
    return path
