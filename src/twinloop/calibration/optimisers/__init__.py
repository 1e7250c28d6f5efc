"""Optimisers behind one interface: ask for points of the unit cube, tell their losses."""

from twinloop.calibration.optimisers.auto import choose
from twinloop.calibration.optimisers.interface import Optimiser, Search
from twinloop.calibration.optimisers.portfolio import Portfolio
from twinloop.calibration.optimisers.registry import GROUP, OPTIMISERS, make

__all__ = ["GROUP", "OPTIMISERS", "Optimiser", "Portfolio", "Search", "choose", "make"]
