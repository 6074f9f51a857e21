"""The job behind ``discreet learn``, whatever the size of the table: in memory, or streamed."""

from __future__ import annotations

from pathlib import Path

from discreet.cluster.connect import connected
from discreet.console import (
    ProgressReport,
    announce,
    check_out,
    plain_console,
    run_learn,
    save,
    stop_on_interrupt,
    told_warnings,
)
from discreet.errors import InputError
from discreet.learning import Task, check_task
from discreet.streaming import is_streamed, learn_streamed, scan


def run_learn_files(
    task: Task,
    out: Path,
    *,
    memory: int | None,
    work_dir: Path | None,
    dask: str | None = None,
    quiet: bool = False,
) -> None:
    """Learn as told, write the mapping, and say what was done.

    Parameters
    ----------
    task : Task
    out : Path
        Where the mapping goes. Nothing is written unless all goes well.
    memory : int or None
        Bytes that learning may take; a table that takes more is streamed.
    work_dir : Path or None
        Where a streamed table is packed; beside the mapping by default.
    dask : str, optional
        The cluster that goes over the rows: a scheduler's address, or "local:N".
    quiet : bool, default=False
        Print warnings only.

    Raises
    ------
    InputError
        Before the work where possible, with what to do.
    ClusterError
        If the cluster does not answer, or has lost all its workers.
    KeyboardInterrupt
        If the user wanted an end and no mapping.
    """
    if work_dir is not None and not work_dir.is_dir():
        raise InputError(f"--work-dir {work_dir}: there is no such directory. Make it first.")
    if not is_streamed(task, memory):
        run_learn(task, out, dask=dask, quiet=quiet)
        return
    for file in task.files():
        check_out(out, file)
    if dask is not None:
        check_task(task)
    console = plain_console()
    report = ProgressReport(console, quiet=quiet)
    with told_warnings(console), connected(dask) as client, stop_on_interrupt(report):
        scanned = scan(task, report=report)
        if not quiet:
            counts = scanned.training, scanned.held_out
            line = announce(scanned.sensors, *counts, task.split)
            console.print(f"{line}; streamed, since there are too many for memory")
        if scanned.warning is not None:
            console.print(f"warning: {scanned.warning}", style="yellow")
        folder = work_dir or out.resolve().parent
        mapper = learn_streamed(scanned, folder, report=report, client=client)
    save(mapper, out, quiet)
