"""Conversion of values to JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_json_values(value: Any) -> Any:
    """Convert to plain data; NaN and infinity, which JSON has no number for, become None.

    >>> to_json_values({1: (float("nan"), np.float64(2.5)), "a": [math.inf, "b"]})
    {'1': [None, 2.5], 'a': [None, 'b']}
    """
    if isinstance(value, Mapping):
        return {str(name): to_json_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_values(item) for item in value]
    if isinstance(value, np.generic):
        return to_json_values(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
