"""Copies of files between data stores and the working folders of tasks, in a real execution."""

from twinloop.execution.staging.bandwidths import CopyRoutes
from twinloop.execution.staging.data_stores import DataStores
from twinloop.execution.staging.file_plan import FilePlan, plan_files
from twinloop.execution.staging.stager import Stager, StagingJob

__all__ = ["CopyRoutes", "DataStores", "FilePlan", "Stager", "StagingJob", "plan_files"]
