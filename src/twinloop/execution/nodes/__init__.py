"""Small nodes laid onto the machine at hand."""

from twinloop.execution.nodes.guard_process import Guard
from twinloop.execution.nodes.local_nodes import LocalNodes, run_name
from twinloop.execution.nodes.missing_resources import NodeSpec
from twinloop.execution.nodes.node_task import Part
from twinloop.execution.nodes.stale_groups import sweep

__all__ = ["Guard", "LocalNodes", "NodeSpec", "Part", "run_name", "sweep"]
