"""Nodes of a run that share this machine, isolated by control groups or CPU affinity."""

from twinloop.execution.nodes.guard_process import Guard
from twinloop.execution.nodes.local_nodes import LocalNodes, make_run_name
from twinloop.execution.nodes.missing_resources import NodeSpec
from twinloop.execution.nodes.node_task import NodeTask
from twinloop.execution.nodes.stale_groups import remove_stale_groups

__all__ = ["Guard", "LocalNodes", "NodeSpec", "NodeTask", "make_run_name", "remove_stale_groups"]
