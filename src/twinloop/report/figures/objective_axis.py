"""Axis of a figure over two objectives: unit, scale and title."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from twinloop.report.kpi_text import get_unit, name_kpi

if TYPE_CHECKING:
    from twinloop.exploration.ranking.objectives import Objective

#: A scale is logarithmic if the largest value is more than this multiple of the smallest one.
MAX_LINEAR_RATIO: Final = 4.0
#: Columns with the positions of points, in the units of the axes.
POSITIONS: Final = ("position x", "position y")
#: The largest value (s) from which times have a longer unit, and the length of that unit (s).
_TIME_UNITS: Final = ((10 * 86400.0, "d", 86400.0), (2 * 3600.0, "h", 3600.0))


def is_logarithmic(low: float, high: float) -> bool:
    """Whether values from `low` to `high` need a logarithmic scale.

    >>> is_logarithmic(20.0, 75.0), is_logarithmic(15.0, 75.0), is_logarithmic(0.0, 75.0)
    (False, True, False)
    """
    return low > 0 and high / low > MAX_LINEAR_RATIO


class ObjectiveAxis(NamedTuple):
    """The axis of an objective in an interactive figure.

    >>> from twinloop.exploration.ranking.objectives import Objective
    >>> axis = ObjectiveAxis.of(Objective.of("makespan_s"), 3600.0, 36000.0)
    >>> axis.title, axis.divisor, axis.kind
    ('makespan (h), logarithmic, less is better', 3600.0, 'log')
    """

    objective: Objective
    #: The unit, and its length in the unit of `scale_value`.
    unit: str
    divisor: float
    is_log: bool

    @classmethod
    def of(cls, objective: Objective, low: float, high: float) -> ObjectiveAxis:
        """Make the axis for values from `low` to `high`, in the unit of `scale_value`."""
        unit, divisor = get_unit(objective.kpi), 1.0
        if unit == "s":
            units = ((name, length) for limit, name, length in _TIME_UNITS if high >= limit)
            unit, divisor = next(units, (unit, divisor))
        return cls(objective, unit, divisor, is_logarithmic(low, high))

    @property
    def label(self) -> str:
        """The name of the objective with the unit."""
        name = name_kpi(self.objective.kpi)
        return f"{name} ({self.unit})" if self.unit else name

    @property
    def title(self) -> str:
        """The label with the kind of the scale and the better direction."""
        kind = ", logarithmic" if self.is_log else ""
        return f"{self.label}{kind}, {'less' if self.objective.lower else 'more'} is better"

    @property
    def kind(self) -> str:
        """The type of the axis for Plotly."""
        return "log" if self.is_log else "linear"
