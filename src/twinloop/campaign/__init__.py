"""Many runs at once: threads, processes, Dask; bounded, in order, resumable."""
