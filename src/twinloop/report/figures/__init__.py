"""Figures of runs, assessments, calibrations, studies and confirmations."""
