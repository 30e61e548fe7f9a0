"""Where settings come from: `<state-dir>/settings.json`, then variables.

`MUSTER_<FIELD>` and `MUSTER_<SECTION>__<FIELD>` in the environment go before what stands in the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from muster.bus.settings import Settings

PREFIX = "MUSTER_"
FILE = "settings.json"
_NOT_OVERRIDDEN = frozenset({"state_dir"})  # MUSTER_STATE_DIR names the directory that this file stands in


def load_settings(state_dir: Path, environment: Mapping[str, str]) -> Settings:
    """The settings of a stack. Raises OSError, or pydantic.ValidationError that names the field."""
    values = json.loads((state_dir / FILE).read_text(encoding="utf-8"))
    return Settings.model_validate(with_variables(values, environment))


def with_variables(values: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, object]:
    """The values of settings, those of the environment's variables instead where there are any."""
    changed = dict(values)
    for field, info in Settings.model_fields.items():
        if field in _NOT_OVERRIDDEN:
            continue
        section = info.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            given = {
                inner: value
                for inner in section.model_fields
                if (value := environment.get(f"{PREFIX}{field}__{inner}".upper())) is not None
            }
            if given:
                before = changed.get(field)
                changed[field] = {**(before if isinstance(before, dict) else {}), **given}
        elif (value := environment.get(f"{PREFIX}{field}".upper())) is not None:
            changed[field] = value
    return changed
