"""The JSON Schema of saved runs, made from the dataclasses: ``python -m harness.report._schema``.

What it prints is kept as ``run.schema.json`` beside this file.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Mapping
from typing import Any

from harness.record import Frame, Record, Stack
from harness.report._codec import RECORDS, TAG, default, hints, options
from harness.report._json import REPORT, RUN, VERSION, Report
from harness.report._run import Run

_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}
_NUMBERS = {"type": "array", "items": {"type": "integer", "minimum": 0}}


def schema() -> dict[str, Any]:
    """The schema of both documents, as JSON Schema 2020-12."""
    definitions: dict[str, Any] = {}
    run = _object(Run, definitions)
    run["properties"] = {
        "schema": {"const": RUN},
        "version": {"const": VERSION},
        "frames": {
            "description": "Every frame of the run, once.",
            "type": "array",
            "items": _of(Frame, definitions),
        },
        "stacks": {
            "description": "Every stack, once: the numbers of its frames, the call site first.",
            "type": "array",
            "items": _NUMBERS,
        },
        **run["properties"],
    }
    run["required"] = ["schema", "version", "frames", "stacks", *hints(Run)]
    definitions["Run"] = run
    report = _object(Report, definitions)
    report["properties"] = {
        "schema": {"const": REPORT},
        "version": {"const": VERSION},
        **report["properties"],
        "runs": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Run"}},
    }
    report["required"] = ["schema", "version", "test", "runs"]
    definitions["Report"] = report
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Saved runs of pytest-collectives",
        "description": "docs/reference/json.md says what each part means.",
        "oneOf": [{"$ref": "#/$defs/Run"}, {"$ref": "#/$defs/Report"}],
        "$defs": dict(sorted(definitions.items())),
    }


def _of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint == Stack:
        return {"$ref": "#/$defs/stack"} if "stack" in definitions else _stack(definitions)
    if hint == Record:
        for kind in RECORDS.values():
            _of(kind, definitions)
            definitions[kind.__name__]["properties"][TAG] = {"const": kind.__name__}
            definitions[kind.__name__]["required"].insert(0, TAG)
        return {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in RECORDS]}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if inner[-1] is ...:
            return {"type": "array", "items": _of(inner[0], definitions)}
        items = [_of(kind, definitions) for kind in inner]
        return {
            "type": "array",
            "prefixItems": items,
            "minItems": len(items),
            "maxItems": len(items),
        }
    if origin is Mapping:
        made = {"type": "object", "additionalProperties": _of(inner[1], definitions)}
        return made | ({"propertyNames": {"pattern": "^[0-9]+$"}} if inner[0] is int else {})
    if len(options(hint)) > 1:
        kinds = [kind for kind in options(hint) if kind is not types.NoneType]
        return {"anyOf": [*(_of(kind, definitions) for kind in kinds), {"type": "null"}]}
    return {"type": _PLAIN[hint]}


def _stack(definitions: dict[str, Any]) -> dict[str, Any]:
    definitions["stack"] = {
        "description": 'The number of a stack in the run\'s "stacks".',
        "type": "integer",
        "minimum": 0,
    }
    return {"$ref": "#/$defs/stack"}


def _object(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": inspect.getdoc(kind),
        "type": "object",
        "properties": {name: _of(hint, definitions) for name, hint in hints(kind).items()},
        "required": [
            field.name
            for field in dataclasses.fields(kind)
            if default(field) is dataclasses.MISSING
        ],
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1, ensure_ascii=False))
