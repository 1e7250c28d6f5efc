"""Optimisers behind one interface: ask for points of the unit cube, tell their losses."""

from twinloop.calibrate.optimise.auto import choose
from twinloop.calibrate.optimise.interface import Optimiser, Search
from twinloop.calibrate.optimise.portfolio import Portfolio
from twinloop.calibrate.optimise.registry import GROUP, OPTIMISERS, make

__all__ = ["GROUP", "OPTIMISERS", "Optimiser", "Portfolio", "Search", "choose", "make"]
