"""A fit whose passes over the rows run on a cluster."""

from __future__ import annotations

from os import PathLike
from typing import Any, TypeVar

import pandas as pd
from numpy.typing import ArrayLike

from discreet.design.coded import coded_file
from discreet.design.inputs import check_kernel
from discreet.design.kernels import CountKernel
from discreet.design.packed_file import PackedFile
from discreet.design.problem import MANY_ROWS, Place, design_sample
from discreet.design.sweep import RowSource, StoredRows
from discreet.errors import InputError
from discreet.mappers.base import PrivacyMapper

_Mapper = TypeVar("_Mapper", bound=PrivacyMapper)


def fit(
    mapper: _Mapper,
    client: Any,
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    *,
    private: pd.Series[Any] | pd.DataFrame | ArrayLike,
    groups: ArrayLike | None = None,
) -> _Mapper:
    """Do what ``mapper.fit`` does, with the passes over many rows on a Dask cluster.

    The mapping is the one that ``mapper.fit`` learns, for any number of workers.

    Parameters
    ----------
    mapper : NPOMapper, BayesErrorMapper or NDDMapper
        With ``kernel="count"``.
    client : distributed.Client
        Of a cluster whose workers have the same version of discreet.
    X, y, private, groups
        As in ``mapper.fit``.

    Returns
    -------
    mapper
        Fitted.

    Raises
    ------
    InputError
        For what ``mapper.fit`` refuses, and for mappers and kernels that no cluster runs.
    ClusterError
        If all workers are lost.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://10.0.0.5:8786", direct_to_workers=True)  # doctest: +SKIP
    >>> fit(NPOMapper(kernel="count"), client, X, y, private=g)  # doctest: +SKIP
    """
    check_mapper(mapper)
    return mapper.fit_reporting(X, y, private, groups=groups, place=place_on(client))


def fit_packed(mapper: _Mapper, client: Any, path: str | PathLike[str]) -> _Mapper:
    """Do what ``mapper.fit_packed`` does, with the passes over the rows on a Dask cluster.

    The workers hold all rows in their memory together; here they stay in their file.

    ``mapper``, ``client``: as in ``fit``. ``path``: what ``discreet.learning.pack_tables`` wrote.
    Returns fitted. Raises InputError, ClusterError: as in ``fit``, and if the file is damaged.
    """
    check_mapper(mapper)
    with PackedFile.open(path) as file:
        return mapper.fit_coded(coded_file(file, None), place=place_on(client))


def check_mapper(mapper: PrivacyMapper) -> None:
    """Refuse a mapper whose work is not passes over packed rows."""
    kernel = check_kernel(mapper.kernel)
    if mapper._designer is not design_sample:
        raise InputError(
            f"method {mapper._method!r} does not go over the rows again and again, so that a "
            "cluster is of no use to it. Learn without one."
        )
    if not isinstance(kernel, CountKernel):
        raise InputError(
            f"a cluster runs the 'count' kernel, got {kernel.name!r}. Choose 'count', or learn "
            "without a cluster."
        )


def place_on(client: Any) -> Place:
    """Return what puts many rows on the cluster and leaves few where they are."""
    from discreet.cluster.rows import ClusterRows

    def place(weighted_rows: StoredRows) -> RowSource:
        return (
            weighted_rows if len(weighted_rows) <= MANY_ROWS else ClusterRows(client, weighted_rows)
        )

    return place
