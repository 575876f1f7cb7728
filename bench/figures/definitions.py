"""Which figures does a record hold? docs/measures.md is this table in print."""

from __future__ import annotations

from bench.figures.check_definitions import CHECK_DEFINITIONS
from bench.figures.definition import Definition
from bench.figures.inference_definitions import INFERENCE_DEFINITIONS
from bench.figures.session_definitions import SESSION_DEFINITIONS
from bench.figures.time_definitions import TIME_DEFINITIONS
from bench.figures.token_definitions import TOKEN_DEFINITIONS
from bench.figures.traffic_definitions import TRAFFIC_DEFINITIONS

DEFINITIONS: tuple[Definition, ...] = (
    *INFERENCE_DEFINITIONS,
    *SESSION_DEFINITIONS,
    *TIME_DEFINITIONS,
    *TRAFFIC_DEFINITIONS,
    *TOKEN_DEFINITIONS,
    *CHECK_DEFINITIONS,
)
"""In the order of a record and of every table."""
