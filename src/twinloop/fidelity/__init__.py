"""How far a twin can be trusted: aligned metrics, criteria, verdicts."""
