"""Methods to delimit the sessions of users; `sessions` defines them."""

from __future__ import annotations

from typing import Literal

Delimitation = Literal["arrival", "last", "max"]
