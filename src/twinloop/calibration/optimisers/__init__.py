"""Optimisers with one interface: ask for points of the unit cube, tell their losses."""

from twinloop.calibration.optimisers.auto import choose_optimiser
from twinloop.calibration.optimisers.interface import BaseOptimiser, Optimiser
from twinloop.calibration.optimisers.portfolio import OptimiserPortfolio
from twinloop.calibration.optimisers.registry import GROUP, OPTIMISERS, create_optimiser

__all__ = [
    "GROUP",
    "OPTIMISERS",
    "BaseOptimiser",
    "Optimiser",
    "OptimiserPortfolio",
    "choose_optimiser",
    "create_optimiser",
]
