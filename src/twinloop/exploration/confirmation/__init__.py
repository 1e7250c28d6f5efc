"""Confirmation: real runs of the best configurations, compared with their predictions."""
