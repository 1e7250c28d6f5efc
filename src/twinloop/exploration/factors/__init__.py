"""Factors and their levels, and the designs that combine them."""
