"""``discreet evidence``: a signed folder for an officer, and whether such a folder is sound."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import Json, argument, option
from discreet.cli.terminal import interruptible, plain_print, print_json, print_verdict
from discreet.errors import InputError
from discreet.network import find_site, need_network

if TYPE_CHECKING:
    from discreet.network.evidence_pack.packing import Verified

RED = 3
_COLOURS = {"good": "32", "warn": "33", "bad": "31"}
_WORDS = {"good": "GREEN", "warn": "AMBER", "bad": "RED"}


def evidence(
    site: Annotated[
        Path | None,
        argument("[SITE]", "Folder that `discreet init` wrote. [default: this one, or site in it]"),
    ] = None,
    out: Annotated[Path | None, option("FOLDER", "New folder to write the evidence to.")] = None,
    verify: Annotated[
        Path | None, option("FOLDER", "Check evidence that somebody handed over; writes nothing.")
    ] = None,
    public_key: Annotated[
        str | None,
        option(
            "KEY",
            "With --verify: whose signature it has to be, 64 hexadecimal digits or a file that has "
            "them, such as keys/bundle.pub.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        option(
            "FILE",
            "What `discreet audit --html` wrote. [default: report.html in the site, if there is "
            "one]",
        ),
    ] = None,
    statements: Annotated[
        Path | None,
        option("FILE", "TOML with what only a person can state: purpose, people, legal_basis ..."),
    ] = None,
    key: Annotated[
        Path | None,
        option("FILE", "Ed25519 key to sign with, made if it is not there. [default: the site's]"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write what a privacy officer needs to know about a site, signed; or verify it.

    The folder has a page to read and print, the same for programs, the mapping, the audit
    with its report, the state of the re-check and the health. Every line links to what was
    measured. It is not legal advice. Exit code 3 if the guarantee does not hold: no
    certificate, a limit not shown to be kept, a fact without a bound, expired, withdrawn or
    not checked for 30 days; the folder is still written and says so. With --verify also 3
    if --public-key is not given.

    Example:

        discreet evidence site --out pack

        discreet evidence --verify pack --public-key site/keys/bundle.pub
    """
    with interruptible("stopped. Nothing was written."):
        need_network()
        if verify is not None:
            _refuse("--verify", site=site, out=out, report=report, statements=statements, key=key)
            return _verify(verify, public_key, as_json)
        _refuse("making evidence", public_key=public_key)
        if out is None:
            raise InputError("--out is missing: name a new folder, or --verify one that is there.")
        return _make(find_site(site), out, report, statements, key, as_json)


def _refuse(what: str, **given: object) -> None:
    named = next((name for name, value in given.items() if value is not None), None)
    if named is not None:
        called = "SITE" if named == "site" else "--" + named.replace("_", "-")
        raise InputError(f"{called} is of no use for {what}. Leave it out.")


def _make(
    site: Path,
    out: Path,
    report: Path | None,
    statements: Path | None,
    key: Path | None,
    as_json: bool,
) -> int:
    from discreet.export.signing import load_or_make_key
    from discreet.files import check_folder
    from discreet.network.evidence_pack.content import load_statements
    from discreet.network.evidence_pack.packing import gather, write_pack
    from discreet.network.site.settings import SiteFiles, load_site

    load_site(site)
    check_folder(out, "--out ")
    own = SiteFiles(site).bundle_key
    if key is None and not own.exists():
        raise InputError(f"{site}: has no keys/bundle.key to sign with. Name a key with --key.")
    gathered = gather(site, report, load_statements(statements))
    signer = load_or_make_key(own if key is None else key)
    manifest = write_pack(gathered, signer, out)
    state = gathered.evidence.state
    if as_json:
        about = {"out": str(out), "key": signer.public_hex, "files": list(manifest.files)}
        print_json(about | {"state": state.model_dump(mode="json")})
    else:
        print_verdict(
            f"{_WORDS[state.level]}: {state.headline}. {' '.join(state.words)}",
            _COLOURS[state.level],
        )
        plain_print(f"wrote {out}, {len(manifest.files)} files, signed; to read: {out}/index.html")
        plain_print(f"public key, to hand over by another way: {signer.public_hex}")
    return RED if state.level == "bad" else 0


# --- Verifying -------------------------------------------------------------------------------


def _verify(folder: Path, public_key: str | None, as_json: bool) -> int:
    from discreet.network.evidence_pack.packing import verify_pack

    wanted = None if public_key is None else _key_digits(public_key)
    found = verify_pack(folder, wanted, datetime.now(UTC).date())
    if as_json:
        about = {"key": found.key, "key_known": found.known, "out_of_date": found.out_of_date}
        state = found.evidence.state.model_dump(mode="json")
        print_json({"stands": found.stands, **about, "state": state})
    else:
        _say(found)
    return 0 if found.stands else RED


def _say(found: Verified) -> None:
    evidence, state = found.evidence, found.evidence.state
    plain_print(f"intact: site {evidence.site}, made {evidence.made}, key {found.key[:16]}…")
    if not found.known:
        plain_print(
            "whose key this is the folder cannot show: give --public-key, as the owner of the site "
            "has it"
        )
    level = "bad" if found.out_of_date else state.level
    said = found.out_of_date or " ".join(state.words)
    print_verdict(f"{_WORDS[level]}: {state.headline}. {said}", _COLOURS[level])


def _key_digits(given: str) -> str:
    """Return a public key that was typed, or that a file holds."""
    from discreet.network.site.settings import read_bytes

    text = given
    if not re.fullmatch(r"[0-9a-fA-F]{64}", given):
        path = Path(given)
        if not path.is_file():
            raise InputError(
                f"--public-key {given[:80]!r} is neither 64 hexadecimal digits nor a file."
            )
        text = read_bytes(path, 1_000).decode("ascii", "replace").strip()
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise InputError(
            f"--public-key {given[:80]!r}: holds no public key, 64 hexadecimal digits."
        )
    return text.lower()
