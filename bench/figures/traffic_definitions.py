"""What do the figures of the requests' purposes and failures mean: retries, titles, summaries, cuts, prompts too long?"""

from __future__ import annotations

from bench.figures.definition import Definition

_NO_REQUEST = "there was no request, or no relay"

TRAFFIC_DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        id="retried_requests",
        version=2,
        title="Requests asked again",
        unit="requests",
        statistic="count",
        sources=("relay",),
        formula="requests to the model whose messages are those of an earlier one of the session that failed, was cut at its output limit or got an answer without words and calls; n counts all requests",
        null_when=_NO_REQUEST,
        group="session",
    ),
    Definition(
        id="side_requests",
        title="Requests beside the conversation",
        unit="requests",
        statistic="count",
        sources=("relay",),
        formula="requests without tools in a session that has tools, from whose messages no later request goes on and which sum up no conversation: titles, pages; n counts all requests",
        null_when=_NO_REQUEST,
        group="session",
    ),
    Definition(
        id="compaction_requests",
        title="Requests for summaries of the conversation",
        unit="requests",
        statistic="count",
        sources=("relay",),
        formula="requests without tools in a session that has tools, which hold what model or tools said in it and after which no request goes on from that history, and requests whose answer begins the shorter history that the next one goes on with; n counts all requests",
        null_when=_NO_REQUEST,
        group="session",
    ),
    Definition(
        id="aborted_requests",
        title="Requests that the agent broke off",
        unit="requests",
        statistic="count",
        sources=("relay",),
        formula="requests to the model whose client went away before the answer's end; n counts all requests",
        null_when=_NO_REQUEST,
        group="session",
    ),
    Definition(
        id="length_stops",
        title="Answers cut at their output limit",
        unit="requests",
        statistic="count",
        sources=("relay",),
        formula="served requests with finish reason length, max_tokens or incomplete; n counts the served ones",
        null_when=_NO_REQUEST,
        group="session",
    ),
    Definition(
        id="overflow_requests",
        title="Prompts over the context window",
        unit="requests",
        statistic="count",
        sources=("relay",),
        formula="failed requests whose error is one of the context errors of the engine's profile, and requests whose reported prompt is longer than the window that the engine granted in their segment; n counts all requests",
        null_when=_NO_REQUEST,
        group="session",
    ),
    Definition(
        id="agent_retries",
        title="Retries, the agent's word",
        unit="retries",
        statistic="sum",
        sources=("agent",),
        formula="times that the agent says it asked again after a failure, over all agent sessions; n counts the sessions",
        null_when="the agent does not report them",
        group="session",
    ),
    Definition(
        id="tokens_on_failures",
        title="Tokens of failed requests",
        unit="tokens",
        statistic="sum",
        sources=("engine-response",),
        formula="Σ prompt and output tokens of requests that were not answered whole, as far as their answers reported any; n counts those requests",
        null_when="there was no request, no relay, or none of the failed ones reports a count",
        group="token",
    ),
)
