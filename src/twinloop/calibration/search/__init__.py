"""The search for the smallest loss: objective, budget, journal, and selection of methods."""
