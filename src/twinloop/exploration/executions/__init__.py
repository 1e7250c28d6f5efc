"""Studies over real executions: each one simulated with several injected sets, and the errors."""
