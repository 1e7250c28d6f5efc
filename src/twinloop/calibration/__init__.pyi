from .black_box.calibration import Bench, BlackBoxObjective, Experiment, calibrate_black_box
from .cases import Case
from .fit import Fit
from .parameters.parameters import Categorical, Exponential, Linear, Ordered, Ordinal
from .parameters.space import Space
from .run import calibrate
from .search.objective import TwinObjective
from .search.search import Budget, History
from .search.selection import chosen
from .search.synthetic import Ranking, distance
from .splits import hold_out

__all__ = [
    "Bench",
    "BlackBoxObjective",
    "Budget",
    "Case",
    "Categorical",
    "Experiment",
    "Exponential",
    "Fit",
    "History",
    "Linear",
    "Ordered",
    "Ordinal",
    "Ranking",
    "Space",
    "TwinObjective",
    "calibrate",
    "calibrate_black_box",
    "chosen",
    "distance",
    "hold_out",
]
