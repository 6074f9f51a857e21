"""Tables counted on a Dask cluster, and whole fits spread over one as tasks."""
