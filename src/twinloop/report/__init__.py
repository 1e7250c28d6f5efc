"""Pictures and words: what people would rather look at than read."""

from twinloop.report.load import load_figure
from twinloop.report.terminal import load_chart

__all__ = ["load_chart", "load_figure"]
