from .black_box.calibration import calibrate_black_box
from .black_box.description import BlackBoxCalibration
from .black_box.experiment import Experiment
from .black_box.objective import BlackBoxObjective
from .cases import Case
from .client_models import ClientModels, fit_client_models, fit_prediction_errors
from .detail.levels import Levels
from .detail.run import calibrate_levels
from .detail.spec_sheet import SpecSheet
from .detail.study import DetailStudy
from .fit import Fit
from .parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
    OrderedParameter,
    OrdinalParameter,
)
from .parameters.space import Space
from .record_checks import check_client_records
from .run import calibrate
from .search.minimisation import History, SearchBudget
from .search.objective import TwinObjective
from .search.parameter_recovery import RecoveryRanking, measure_distance
from .search.selection import rank_losses_and_optimisers
from .splits import hold_out
from .training_set_fit import TrainingSetFit

__all__ = [
    "BlackBoxCalibration",
    "BlackBoxObjective",
    "Case",
    "CategoricalParameter",
    "ClientModels",
    "DetailStudy",
    "Experiment",
    "ExponentialParameter",
    "Fit",
    "History",
    "Levels",
    "LinearParameter",
    "OrderedParameter",
    "OrdinalParameter",
    "RecoveryRanking",
    "SearchBudget",
    "Space",
    "SpecSheet",
    "TrainingSetFit",
    "TwinObjective",
    "calibrate",
    "calibrate_black_box",
    "calibrate_levels",
    "check_client_records",
    "fit_client_models",
    "fit_prediction_errors",
    "hold_out",
    "measure_distance",
    "rank_losses_and_optimisers",
]
