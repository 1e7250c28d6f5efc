"""Small nodes laid onto the machine at hand."""

from twinloop.execute.nodes.guarding import Guard
from twinloop.execute.nodes.local import LocalNodes, run_name
from twinloop.execute.nodes.part import Part
from twinloop.execute.nodes.shortfall import NodeSpec
from twinloop.execute.nodes.sweeping import sweep

__all__ = ["Guard", "LocalNodes", "NodeSpec", "Part", "run_name", "sweep"]
