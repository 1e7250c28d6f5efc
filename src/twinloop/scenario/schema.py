"""The JSON schemas of platform and scenario, for editors and other programs.

After a change of a description, `python -m twinloop.scenario.schema` updates the files in the
package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twinloop.description.files import write_atomically
from twinloop.platform import Platform
from twinloop.scenario.scenario import Scenario

#: The folder of the published schemas.
FOLDER = Path(__file__).parent.parent / "schemas"


def build_schemas() -> dict[str, dict[str, Any]]:
    """Create the schemas, by file name.

    >>> sorted(build_schemas())
    ['platform.schema.json', 'scenario.schema.json']
    """
    return {
        f"{cls.noun()}.schema.json": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **_clean_up(cls.model_json_schema(mode="validation")),
        }
        for cls in (Platform, Scenario)
    }


def _clean_up(schema: Any) -> Any:
    """Add titles to all fields, and shorten docstrings to their first paragraph."""
    if isinstance(schema, list):
        return [_clean_up(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _clean_up(value) for key, value in schema.items()}
    for name, field in schema.get("properties", {}).items():
        field["title"] = name.replace("_", " ").capitalize()
    if isinstance(schema.get("description"), str):
        schema["description"] = " ".join(schema["description"].partition("\n\n")[0].split())
    return schema


def write_schemas(folder: Path = FOLDER) -> list[Path]:
    """Write all schemas into a folder."""
    paths = []
    for name, schema in build_schemas().items():
        with write_atomically(folder / name) as stream:
            stream.write((json.dumps(schema, indent=2, ensure_ascii=False) + "\n").encode())
        paths.append(folder / name)
    return paths


if __name__ == "__main__":
    for path in write_schemas():
        print(path)
