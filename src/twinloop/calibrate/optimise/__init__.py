"""Optimisers behind one interface: ask for points of the unit cube, tell their losses."""
