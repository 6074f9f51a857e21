"""The same fit on a Dask cluster: workers hold packed rows, and whole fits are spread as tasks."""
