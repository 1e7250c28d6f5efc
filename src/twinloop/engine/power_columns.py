"""Conversion of power models to native columns."""

from __future__ import annotations

from typing import Any

from twinloop.platform.power import AnyPowerModel, Table


def build_power_columns(model: AnyPowerModel | None) -> dict[str, Any]:
    """Build the native columns of a power model."""
    columns: dict[str, Any] = {
        "kind": "none" if model is None else model.model,
        "idle": 0.0,
        "max": 0.0,
        "parameter": 0.0,
        "dvfs": False,
        "levels": [],
        "watts": [],
    }
    if model is None:
        return columns
    if isinstance(model, Table):
        columns |= {"levels": [u for u, _ in model.points], "watts": [w for _, w in model.points]}
    elif model.model == "constant":
        columns["idle"] = model.power
    else:
        columns |= {"idle": model.idle, "max": model.max}
    if model.model == "mse":
        columns["parameter"] = model.r
    if model.model == "asymptotic":
        columns |= {"parameter": model.a, "dvfs": model.dvfs}
    return columns
