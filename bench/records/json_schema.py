"""The published JSON schema of `record.json`, derived from the dataclasses. `make schemas` writes it to docs/schemas/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.records.schema import RunRecord

PUBLISHED = "docs/schemas/record.schema.json"


def record_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a record; unknown keys are refused, so a typo in a tool that writes one is found."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(RunRecord).json_schema()
    _close(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "runcard record",
        "description": "One run of runcard: identity, figures, cases and the digests of the evidence.",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def _close(node: Any) -> None:
    if isinstance(node, dict):
        if node.get("type") == "object" and "properties" in node:
            node["additionalProperties"] = False
        for value in node.values():
            _close(value)
    elif isinstance(node, list):
        for value in node:
            _close(value)


if __name__ == "__main__":
    Path(PUBLISHED).write_text(json.dumps(record_schema(), indent=1) + "\n", encoding="utf-8")
