"""Reality: scenarios run with real processes on real CPUs, and what they did, recorded."""
