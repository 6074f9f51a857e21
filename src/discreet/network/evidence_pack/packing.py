"""Gather the evidence of a site, write it as a signed pack, and verify one of anybody.

*Gather what a site knows about itself, without its secrets and without changing anything.* The
re-check's own file stays at the site, since labelled rows that wait are in it; its state goes out.

*Whether the guarantee of a site stands on a day, for the evidence: green, amber or red.* Red means
that nothing may be relied on: there is no certificate of the mapping that runs, it does not show a
limit to be kept or bounds nothing, it has ended or was withdrawn, or nobody has looked for longer
than a re-check may be old.
"""

from __future__ import annotations

import base64
import hashlib
import json
import stat
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import Field, ValidationError

import discreet
from discreet.auditing.audit_file import AuditSummary, load_audit
from discreet.auditing.report.words import NO_ADVICE
from discreet.auditing.results import has_report
from discreet.data.strict_model import Model
from discreet.errors import InputError
from discreet.export.signing import SigningKey, is_signed
from discreet.files import write_folder
from discreet.mapping.mapping import Mapping
from discreet.network.dashboard.guarantee import Guarantee, guarantee_of
from discreet.network.dashboard.logins import Users
from discreet.network.doctor import privacy
from discreet.network.evidence_pack.content import (
    AUDIT,
    FILE_NAME,
    MAPPING,
    REPORT,
    Evidence,
    Health,
    Known,
    Measured,
    Noted,
    State,
    Statements,
    annex,
    as_level,
)
from discreet.network.fleet import GUARANTEE, Fleet
from discreet.network.health import BAD, worst
from discreet.network.observed import load_certificates
from discreet.network.site.settings import (
    MAX_BYTES,
    Site,
    SiteFiles,
    first_problem,
    load_devices,
    load_site,
    model_bytes,
    read_bytes,
)

# --- Whether the guarantee stands -----------------------------------------------------------


def state_of(found: Guarantee, expires: date | None) -> State:
    """Return the state that follows from a guarantee; files that cannot be read make it red."""
    now, looked = found.standing, found.looked
    stands = found.kept and not now.over and found.certificate.level != BAD
    return State(
        level=as_level(found.level if stands else BAD),
        headline=found.certificate.short,
        words=tuple(dict.fromkeys(each.words for each in found.findings)),
        audited=found.issued,
        certified=found.issued if stands else None,
        bounds_count=found.issued is not None and not now.over,
        expires=expires,
        valid_until=now.until if stands else None,
        recheck=now.state,
        recheck_words=now.words,
        recheck_rows=looked.rows if looked is not None else 0,
        recheck_supported=looked.supported if looked is not None else None,
    )


# --- What a site knows ----------------------------------------------------------------------

_MOST_LISTED = 200


@dataclass(frozen=True)
class Gathered:
    """The evidence, and the files that go with it as they are."""

    evidence: Evidence
    files: dict[str, bytes]


def gather(
    folder: Path, report: Path | None = None, statements: Statements | None = None
) -> Gathered:
    """Read a site, which may run meanwhile.

    ``report``: what ``discreet audit --html`` wrote; by default ``report.html`` in the site, if it
    is there. Raises DiscreetError: if the folder is no site, its mapping cannot be read, or the
    report is of another audit.
    """
    site, now = load_site(folder), datetime.now(UTC)
    data = read_bytes(folder / site.mapping)
    mapping = Mapping.loads(data.decode(errors="replace"), where=str(folder / site.mapping))
    guarantee = guarantee_of(folder, site.expires, mapping, now.date(), hide=True)
    state = state_of(guarantee, site.expires)
    files = {MAPPING: data} | _audit_files(folder, mapping, report)
    audit = json.loads(files[AUDIT]) if AUDIT in files else None
    measured = _measured(folder, site, mapping)
    summary = AuditSummary.model_validate_json(files[AUDIT]) if AUDIT in files else None
    known = Known(audit, summary, REPORT in files, state, measured, statements or Statements())
    evidence = Evidence(
        made=now.isoformat(timespec="seconds"),
        program=f"discreet {discreet.__version__}",
        site=site.key,
        mapping_id=mapping.id,
        advice=NO_ADVICE,
        state=state,
        health=_health(folder),
        measured=measured,
        sections=annex(known),
    )
    return Gathered(evidence, files)


def _audit_files(folder: Path, mapping: Mapping, report: Path | None) -> dict[str, bytes]:
    """Return audit and report, if they are of the mapping that runs."""
    files, found = SiteFiles(folder), _sound_audit(folder, mapping)
    page = report or (files.report if files.report.exists() else None)
    if found is None:
        if report is not None:
            raise InputError(f"--report {report}: the site has no audit that it could belong to.")
        return {}
    if page is None:
        return {AUDIT: found}
    text = read_bytes(page)
    if not has_report(json.loads(found), text):
        raise InputError(
            f"{page}: is not the report of the site's audit.json, or one of them was changed. "
            "Write both at once: discreet audit ... --json --html."
        )
    return {AUDIT: found, REPORT: text}


def _sound_audit(folder: Path, mapping: Mapping) -> bytes | None:
    file = SiteFiles(folder).audit
    try:
        audit: AuditSummary | None = load_audit(file)
    except InputError:
        return None  # the state says why
    if audit is None or audit.mapping_id != mapping.id or audit.misfit(mapping.private):
        return None
    return read_bytes(file)


def _measured(folder: Path, site: Site, mapping: Mapping) -> Measured:
    clients = load_devices(folder).clients
    ends = [each.expires for each in load_certificates(folder)]
    return Measured(
        sensors=len(mapping.sensors),
        symbols=sum(mapping.n_symbols),
        interval_seconds=site.interval,
        keep_days=site.keep,
        devices=sum(not each.revoked for each in clients.values()),
        revoked=sum(bool(each.revoked) for each in clients.values()),
        budget=site.budget,
        client_certificates_required=_asks_for_certificates(folder),
        only_owner_reads=all(each.level == "ok" for each in privacy(folder)),
        dashboard_users=len(Users(folder / "dashboard" / "users.json").names()),
        first_certificate_ends=datetime.fromtimestamp(min(ends), UTC).date() if ends else None,
    )


def _asks_for_certificates(folder: Path) -> bool | None:
    try:
        text = read_bytes(SiteFiles(folder).broker / "mosquitto.conf").decode(errors="replace")
    except InputError:
        return None
    lines = {" ".join(line.split()) for line in text.splitlines()}
    return "require_certificate true" in lines


def _health(folder: Path) -> Health:
    with closing(Fleet([str(folder)])) as fleet:
        found = fleet.look()[0]
    health = [each for each in found.findings if each.subject != GUARANTEE]  # it has its own state
    noted = [_noted(each.level, each.short, each.words, folder) for each in health]
    level = worst(each.level for each in health)
    return Health(level=as_level(level), findings=tuple(noted[:_MOST_LISTED]))


def _noted(level: str, short: str, said: str, folder: Path) -> Noted:
    for place in (folder.absolute(), folder):  # where the site lies is of no interest
        said = said.replace(f"{place}/", "")
    return Noted(level=as_level(level), short=short, words=said)


# --- The page -------------------------------------------------------------------------------

_ICONS = {"good": "✓", "warn": "!", "bad": "✗"}
_FOLDERS = ("discreet.network.evidence_pack", "discreet.auditing.report")


def render_page(evidence: Evidence, public_key: str, files: list[str]) -> str:
    """Return the page. ``files``: names of the other files of the pack."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(folder) for folder in _FOLDERS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assert environment.loader is not None
    style = "".join(
        environment.loader.get_source(environment, name)[0]
        for name in ("report.css", "evidence.css")
    )
    page: str = environment.get_template("evidence.html").render(
        evidence=evidence,
        state=evidence.state,
        icons=_ICONS,
        key=public_key,
        files=files,
        style=Markup(style),  # our own files
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )
    return page


MANIFEST, SIGNATURE, PAGE = "manifest.json", "manifest.sig", "index.html"
_EVIDENCE, _SCHEMA = "evidence.json", "evidence.schema.json"
_PURPOSE = b"discreet-evidence-1\0"
_MOST_FILES = 100
_Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Name = Annotated[str, Field(pattern=FILE_NAME)]


class Listed(Model):
    """One file of a pack."""

    sha256: _Sha
    bytes: Annotated[int, Field(ge=0, le=MAX_BYTES)]


class Manifest(Model):
    """What is signed: every file of the pack, and whose key it is said to be."""

    format: Literal["discreet-evidence-manifest"] = "discreet-evidence-manifest"
    version: Literal[1] = 1
    key: _Sha
    files: Annotated[dict[_Name, Listed], Field(max_length=_MOST_FILES)]


@dataclass(frozen=True)
class Verified:
    """What a pack is worth. ``known``: whether its key is the one that was asked for."""

    evidence: Evidence
    key: str
    known: bool
    out_of_date: str

    @property
    def stands(self) -> bool:
        return self.known and not self.out_of_date and self.evidence.state.level != BAD


def write_pack(gathered: Gathered, key: SigningKey, out: Path) -> Manifest:
    """Write the folder: evidence, page, schema, what they link to, manifest and signature."""
    evidence = gathered.evidence
    schema = json.dumps(Evidence.model_json_schema(), indent=1) + "\n"
    files = {_EVIDENCE: model_bytes(evidence), _SCHEMA: schema.encode(), **gathered.files}
    page = render_page(evidence, key.public_hex, [*files, MANIFEST])
    files[PAGE] = page.encode()
    listed = {
        name: Listed(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
        for name, data in sorted(files.items())
    }
    manifest = Manifest(key=key.public_hex, files=listed)
    body = model_bytes(manifest)
    signature = key.signature(body, _PURPOSE).hex() + "\n"
    whole = {**files, MANIFEST: body, SIGNATURE: signature.encode()}
    write_folder(out, whole, option="--out ")
    return manifest


# --- Verifying -------------------------------------------------------------------------------


def verify_pack(folder: Path, public_key: str | None, today: date) -> Verified:
    """Check a pack: its signature first, then every file, then what it says.

    ``public_key``: hexadecimal, as the owner of the site gave it; without it nobody is known.

    Raises InputError: for the first thing that is wrong.
    """
    if not folder.is_dir():
        raise InputError(
            f"--verify {folder}: no such folder. Name one that discreet evidence wrote."
        )
    body = _read(folder, MANIFEST, 2**20)
    try:
        manifest = Manifest.model_validate(json.loads(body))
    except ValidationError as error:
        raise InputError(f"{folder}: {MANIFEST}: {first_problem(error)}.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{folder}: {MANIFEST} is not JSON.") from None
    if public_key is not None and manifest.key != public_key:
        raise InputError(
            f"{folder}: is signed by key {manifest.key[:16]}…, not by {public_key[:16]}…. It is "
            "not of the site that you know, or its key was changed: ask its owner."
        )
    signature = _read(folder, SIGNATURE, 1_000).strip()
    if not is_signed(body, _from_hex(signature), _PURPOSE, manifest.key):
        raise InputError(f"{folder}: the signature does not fit {MANIFEST}. It was changed.")
    _check_names(folder, manifest)
    data = {name: _checked(folder, name, each) for name, each in manifest.files.items()}
    try:
        evidence = Evidence.model_validate(json.loads(data.get(_EVIDENCE, b"")))
    except (ValidationError, ValueError, RecursionError):
        raise InputError(f"{folder}: {_EVIDENCE} is not what this version writes.") from None
    return Verified(evidence, manifest.key, public_key is not None, _out_of_date(evidence, today))


def _from_hex(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return b""


def _check_names(folder: Path, manifest: Manifest) -> None:
    there = {path.name for path in folder.iterdir()}
    listed = {*manifest.files, MANIFEST, SIGNATURE}
    if missing := sorted(listed - there):
        raise InputError(f"{folder}: {missing[0]} is missing.")
    if more := sorted(there - listed):
        raise InputError(f"{folder}: {more[0]!r:.80} is not in {MANIFEST}: somebody added it.")


def _checked(folder: Path, name: str, listed: Listed) -> bytes:
    data = _read(folder, name, MAX_BYTES)
    if len(data) != listed.bytes or hashlib.sha256(data).hexdigest() != listed.sha256:
        raise InputError(f"{folder}: {name} was changed: its SHA-256 is not the signed one.")
    return data


def _read(folder: Path, name: str, limit: int) -> bytes:
    file = folder / name
    try:
        regular = stat.S_ISREG(file.lstat().st_mode)
    except FileNotFoundError:
        raise InputError(f"{folder}: {name} is missing.") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None
    if not regular:
        raise InputError(f"{folder}: {name} is no regular file.")
    return read_bytes(file, limit)


def _out_of_date(evidence: Evidence, today: date) -> str:
    until = evidence.state.valid_until
    if until is None:  # nothing is promised without an end
        return "" if evidence.state.level == "bad" else "it has no date until which it counts"
    if today <= until:
        return ""
    return f"what it promises counted until {until}: ask for a new one"
