"""``discreet recheck``: labelled rows of a running site in, whether its certificate stands out."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import (
    AssumeIndependent,
    AuditGroup,
    Json,
    argument,
    flag,
    is_share,
    option,
)
from discreet.cli.terminal import (
    check_order,
    check_out,
    interruptible,
    plain_console,
    plain_print,
    print_json,
    print_on,
)
from discreet.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from discreet.auditing.recheck import Recheck
    from discreet.auditing.recheck_bets import LabelledRows
    from discreet.mapping.mapping import Mapping

NOT_VALID = 3


def recheck(
    mapping: Annotated[Path, argument("MAPPING", "Mapping file that runs.")],
    tables: Annotated[
        list[Path],
        argument(
            "TABLE...",
            "Labelled rows of the site. Rows that were judged before are passed over, so that "
            "a table may grow.",
        ),
    ],
    state: Annotated[
        Path | None,
        option("FILE", "Where the re-check is kept. [default: recheck.json beside MAPPING]"),
    ] = None,
    certificate: Annotated[
        Path | None,
        option(
            "FILE", "What `discreet audit --json` printed. [default: audit.json beside MAPPING]"
        ),
    ] = None,
    max_advantage: Annotated[
        float | None, option("A", "The limit, if there is no certificate to read.", is_share)
    ] = None,
    sent: Annotated[
        bool, flag("--sent", "The sensors' columns hold the symbols that were sent, not readings.")
    ] = False,
    group: AuditGroup = None,
    assume_independent: AssumeIndependent = False,
    as_json: Json = False,
) -> int:
    """Judge by labelled rows of a running site whether its certificate still holds.

    May be run after every row. A certificate that holds is withdrawn, at any time of its
    life, with a probability of at most 0.05. Exit code 3 unless the certificate is valid:
    broken, or due for more or fresher rows.

    Example:

        discreet recheck site/mapping.json labelled.csv
    """
    with interruptible("stopped. Nothing was written."):
        from discreet.auditing.recheck import VALID, judge, not_judged, standing
        from discreet.mapping.mapping import Mapping

        today = datetime.now(UTC).date()
        check_order(mapping, tables)
        loaded = Mapping.load(mapping)
        path = mapping.with_name("recheck.json") if state is None else state
        check_out(path, mapping, "--state")
        audit = mapping.with_name("audit.json") if certificate is None else certificate
        found = _recheck(loaded, path, audit, max_advantage, today)
        rows = _read_rows(loaded, tables, group, assume_independent, sent)
        fresh = not_judged(found, rows)
        judge(found, loaded, fresh, today)
        found.save(path)
        now = standing(found, loaded.id, found.certified, None, today, found.claims)
        if as_json:
            about = {"rows": found.rows, "new": len(fresh.codes), "evidence": found.evidence}
            print_json({"state": now.state, "words": now.words, **about})
        else:
            plain_print(f"{now.state}: {now.words}")
        return 0 if now.state == VALID else NOT_VALID


def _recheck(
    mapping: Mapping, path: Path, certificate: Path, max_advantage: float | None, today: date
) -> Recheck:
    """Return the re-check of the certificate in force, begun now if there is none yet."""
    from discreet.auditing.audit_file import load_audit
    from discreet.auditing.recheck import Claim, begin, claims_of, load_recheck

    kept = load_recheck(path, mapping) if path.exists() else None
    if kept is not None and kept.withdrawn is not None:
        return kept
    if max_advantage is not None:
        claims = [Claim(fact=fact.name, limit=max_advantage) for fact in mapping.private]
        same = kept is not None and kept.claims == claims
        return kept if kept is not None and same else begin(mapping, claims, today)
    audit = load_audit(certificate)
    if audit is None:
        raise InputError(
            f"{certificate}: no such file. Name the certificate with --certificate, or the limit "
            "with --max-advantage."
        )
    if audit.mapping_id != mapping.id:
        raise InputError(f"{certificate}: is of another mapping. Audit the one that runs.")
    if misfit := audit.misfit(mapping.private):
        raise InputError(f"{certificate}: {misfit}. Audit all that the mapping guards.")
    claims, answer = claims_of(audit)
    same = kept is not None and (kept.certified, kept.claims) == (audit.date, claims)
    if kept is not None and same and kept.answer == answer:
        return kept
    return begin(mapping, claims, audit.date, answer=answer)


def _read_rows(
    mapping: Mapping, tables: list[Path], group: str | None, assume_independent: bool, sent: bool
) -> LabelledRows:
    from discreet.auditing.recheck_bets import LabelledRows
    from discreet.auditing.table_rows import audit_data_from_table
    from discreet.data.tables import find_files, read_tables

    table = read_tables(find_files(tables))
    if sent:
        return _read_sent(mapping, table, group)
    data = audit_data_from_table(
        mapping, table, group=group, assume_independent=assume_independent, least=0
    )
    if data.withheld:
        note = "the promise on false withdrawals is for independent rows"
        print_on(plain_console(), f"note: {note}; {data.withheld}")
    return LabelledRows(
        data.codes, data.public.index, [fact.index for fact in data.private], data.groups
    )


def _read_sent(mapping: Mapping, table: pd.DataFrame, group: str | None) -> LabelledRows:
    """Return rows whose sensors' columns hold symbols."""
    import numpy as np

    from discreet.auditing.recheck_bets import LabelledRows
    from discreet.data.columns import check_column
    from discreet.data.groups import group_values

    for name in (*mapping.names, mapping.public.name, *(fact.name for fact in mapping.private)):
        check_column(table.columns, name, "symbols or labels")
    symbols = table[mapping.names].to_numpy()
    mapping.decide(symbols)  # refuses what no sensor sends
    groups = None if group is None else group_values(table, group)
    return LabelledRows(
        symbols.astype(np.int64),
        mapping.public.places(table[mapping.public.name]),
        [fact.places(table[fact.name]) for fact in mapping.private],
        None if groups is None else np.unique(groups, return_inverse=True)[1],
        sent=True,
    )
