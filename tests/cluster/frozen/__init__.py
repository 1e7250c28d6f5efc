"""Outcomes of the cluster simulator, stored as the oracle of a redesign of its engine.

`outcomes.parquet` holds the outcomes of random scenarios, `real_logs.json` figures of real logs. A
stored output of a program is a weak test of its correctness, which the laws, the hand-computed
tables and the independent implementations in `tests/cluster` establish. It is a strong test that a
redesign changes nothing: it covers combinations of options for which no other oracle exists.

The files may be written again only when a behaviour changes on purpose, and the commit that does so
states which. `python -m tests.cluster.frozen.freeze` writes them,
`python -m tests.cluster.frozen.compare` lists all differences of the present engine.
"""
