"""Evidence for an officer: what it says, that every line leads somewhere, and who may change it."""

import hashlib
import json
import os
import re
import shutil
from html.parser import HTMLParser

import jsonschema
import pytest
from support.commands import run
from support.dashboards import healthy, make_audit, make_mapping, settle, troubled
from support.evidence import TODAY, audited_site, days_ago, site_of_five_classes, site_with
from support.sites import make_site

from discreet.auditing.audit_file import INDEPENDENT_RELEASES
from discreet.export.signing import load_or_make_key
from discreet.network.fleet import Fleet


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return audited_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pack(site, tmp_path_factory):
    from discreet.network.evidence_pack.packing import gather, write_pack

    out = tmp_path_factory.mktemp("packs") / "pack"
    write_pack(gather(site), load_or_make_key(site / "keys" / "bundle.key"), out)
    return out


@pytest.fixture
def copied(pack, tmp_path):
    return shutil.copytree(pack, tmp_path / "copied")


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *arguments: run(monkeypatch, capsys, "evidence", *map(str, arguments))


def verified(command, pack, site):
    return command("--verify", pack, "--public-key", site / "keys" / "bundle.pub")


def lines_of(pack):
    found = json.loads((pack / "evidence.json").read_text())
    return [line for section in found["sections"] for line in section["lines"]]


def at(content, pointer):
    for part in pointer.split("/")[1:]:
        content = content[int(part)] if isinstance(content, list) else content[part]
    return content


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        if tag == "a":
            self.links.append(found["href"])


# --- What it says ----------------------------------------------------------------------------


def test_a_certified_site_gives_a_pack_that_verifies(command, site, tmp_path):
    code, out, _ = command(site, "--out", tmp_path / "pack")
    assert code == 0 and out.startswith("AMBER: Certified") and "never re-checked" in out
    code, out, _ = verified(command, tmp_path / "pack", site)
    assert code == 0 and out.startswith("intact: site home")


def test_every_line_leads_to_what_was_measured_or_says_that_it_does_not(pack):
    lines = lines_of(pack)
    ids = Page((pack / "report.html").read_text()).ids
    assert len({line["id"] for line in lines}) == len(lines)
    for line in lines:
        assert bool(line["links"]) == (line["status"] in ("measured", "by design")), line
        for link in line["links"]:
            if link["file"].endswith(".json"):
                at(json.loads((pack / link["file"]).read_text()), link["place"])
            else:
                assert link["place"] in ids, link


def test_every_link_of_the_page_leads_into_the_pack(pack):
    page = Page((pack / "index.html").read_text())
    assert len(page.links) > 60
    for link in page.links:
        file, _, place = link.partition("#")
        assert not file or (pack / file).is_file(), link
        assert file or place in page.ids, link


def test_the_three_laws_are_there_clause_by_clause(pack):
    clauses = {line["clause"] for line in lines_of(pack)}
    assert {f"35(7)({letter})" for letter in "abcd"} <= clauses
    assert {f"Part I (2)({letter})" for letter in "abcdefghijklm"} <= clauses
    mechanisms = "ACM AUM SUM SSM SCM LGM DLM UNM CCK GEC CRY"
    assert set(mechanisms.split()) <= clauses
    text = (pack / "index.html").read_text()
    assert "no legal advice" in text and "Not covered by discreet" in text


def test_the_figures_are_those_of_the_audit(pack):
    audit = json.loads((pack / "audit.json").read_text())
    bound = next(
        each for each in audit["private"][0]["certificates"] if each["name"] == "advantage"
    )
    line = next(each for each in lines_of(pack) if each["id"] == "gdpr-c-0")
    said = re.search(r"at most ([\d.]+)\N{NO-BREAK SPACE}points", line["words"])
    assert bound["value"] <= float(said[1]) / 100 <= bound["value"] + 0.0011
    sure = f"certified at {100 * bound['confidence']:.6g}\N{NO-BREAK SPACE}% confidence"
    assert sure in line["words"]
    others = [each for each in lines_of(pack) if each["id"].startswith("gdpr-c-other")]
    assert len(others) == 3 and all("No bound" in each["words"] for each in others)


def test_limits_are_quoted_by_their_names_and_conditions_in_full(site, command, tmp_path):
    site = shutil.copytree(site, tmp_path / "site")
    (site / "report.html").unlink()  # it is of the audit as it was
    audit = json.loads((site / "audit.json").read_text())
    limit = audit["limits"][0]
    audit["limits"] = [
        limit | {"name": "advantage beyond the answer", "limit": 0.25},
        limit | {"name": "epsilon", "limit": 2.0, "upper": 3.0, "state": "not shown"},
    ]
    audit["conditions"] = ["rows are apart", "nobody looked before"]
    audit["other_secrets"]["doubt"] = "neighbouring rows are alike"
    (site / "audit.json").write_text(json.dumps(settle(audit)))
    command(site, "--out", tmp_path / "pack")
    found = {line["id"]: line["words"] for line in lines_of(tmp_path / "pack")}
    assert "limit on the advantage beyond the answer is 25" in found["gdpr-c-0"]
    assert "limit on the epsilon is 2: not shown for 'g'" in found["gdpr-c-0"]
    assert found["gdpr-c-conditions"] == "rows are apart; nobody looked before"
    assert "promises nothing, since neighbouring rows are alike" in found["gdpr-c-other-0"]


def _over_ten_reports(audit):
    words = "no attacker beats guessing by more than 45.3 points over 10 reports"
    certificate = {"name": "advantage of 10", "certifiable": True, "confidence": 0.95}
    audit["private"][0]["over_time"] = {
        "independent_advantage": certificate | {"value": 0.4529, "words": words},
        "any_advantage": certificate | {"value": 0.9, "words": "more"},
    }
    audit |= {"releases": 10, "conditions": [INDEPENDENT_RELEASES]}


def _beyond_the_answer(audit):
    total = {"name": "advantage beyond the answer", "certifiable": True, "value": 0.0981}
    audit["private"][0]["beyond_answer"] = {"total": total}
    audit["limits"][0]["name"] = "advantage beyond the answer"


@pytest.mark.parametrize(
    ("change", "said", "many", "place"),
    [
        (_over_ten_reports, "Of 10 reports, an attacker gains at most 45.3", "measured",
         "/private/0/over_time/independent_advantage"),
        (_beyond_the_answer, "Of one report, an attacker who knows the answer gains at most 9.9",
         "not measured", "/private/0/beyond_answer/total"),
    ],
)  # fmt: skip
def test_the_bound_is_the_one_that_was_judged(command, tmp_path, change, said, many, place):
    site = site_with(tmp_path)
    audit = json.loads((site / "audit.json").read_text())
    change(audit)
    (site / "audit.json").write_text(json.dumps(settle(audit)))
    command(site, "--out", tmp_path / "pack")
    found = {line["id"]: line for line in lines_of(tmp_path / "pack")}
    assert said in found["gdpr-c-0"]["words"]
    for name in ("gdpr-c-0", "gdpr-b-minimal-0", "cra-g-0"):
        assert "at most 6.0" not in found[name]["words"]
        assert place in [each["place"] for each in found[name]["links"]]
    assert found["gdpr-c-time"]["status"] == many
    assert ("45.3 points over 10" in found["gdpr-c-time"]["words"]) == (many == "measured")


def test_a_limit_is_told_for_each_fact_by_itself(command, tmp_path):
    made = make_mapping(private=("who", "room", "health"))
    audit = make_audit(made, TODAY, facts=("who", "room", "health"))
    for fact, bound in zip(audit["private"], (0.06, 0.2, 0.15), strict=True):
        fact["certificates"][0]["value"] = bound
    (tmp_path / "found.json").write_text(json.dumps(settle(audit)))
    site = make_site(tmp_path, made, audit=tmp_path / "found.json")
    _, out, _ = command(site, "--out", tmp_path / "pack")
    assert "It is not shown for 'room' and 'health'." in out
    found = {line["id"]: line["words"] for line in lines_of(tmp_path / "pack")}
    assert "met for 'who'" in found["gdpr-c-0"]
    assert "not shown for 'room'" in found["gdpr-c-1"]
    assert "not shown for 'health'" in found["gdpr-c-2"]
    assert "95\N{NO-BREAK SPACE}% confidence, for all private facts" in found["gdpr-c-0"]


def test_the_json_keeps_to_its_schema(pack):
    schema = json.loads((pack / "evidence.schema.json").read_text())
    jsonschema.validate(json.loads((pack / "evidence.json").read_text()), schema)


def test_nothing_secret_and_no_path_of_the_machine_is_in_it(pack, site):
    whole = b"".join(file.read_bytes() for file in pack.iterdir())
    assert str(site).encode() not in whole and b"PRIVATE KEY" not in whole
    assert not (pack / "recheck.json").exists()
    for secret in (site / "keys").glob("*.key"):
        assert secret.read_bytes().splitlines()[1] not in whole


def test_statements_take_the_place_of_lines_to_fill_in(command, site, tmp_path):
    stated = tmp_path / "officer.toml"
    stated.write_text('purpose = "Help after a <fall>."\nlegal_basis = "Art. 6(1)(a)"\n')
    command(site, "--out", tmp_path / "pack", "--statements", stated)
    found = {line["id"]: line for line in lines_of(tmp_path / "pack")}
    assert found["gdpr-a-purpose"]["words"] == "Help after a <fall>."
    assert found["gdpr-a-purpose"]["status"] == "stated"
    assert found["gdpr-a-people"]["status"] == "to fill in"
    assert "Help after a &lt;fall&gt;." in (tmp_path / "pack" / "index.html").read_text()


@pytest.mark.slow
def test_two_secrets_and_five_answers_have_a_line_each(command, tmp_path):
    site = site_of_five_classes(tmp_path)
    code, _, error = command(site, "--out", tmp_path / "pack")
    assert code in (0, 3) and error == ""
    found = {line["id"]: line for line in lines_of(tmp_path / "pack")}
    assert "who" in found["gdpr-c-0"]["title"] and "<ill>" in found["gdpr-c-1"]["title"]
    assert {"cra-g-0", "cra-g-1", "gdpr-b-minimal-0", "gdpr-b-minimal-1"} <= set(found)
    for k in range(2):  # where rows are few, an estimate does not show that less is sent
        said = found[f"gdpr-b-minimal-{k}"]["words"]
        assert said.startswith("The best attacker on raw readings gained about ")
        assert said.endswith("These rows do not show for certain that less is sent than read.")
    assert "<ill>" not in (tmp_path / "pack" / "index.html").read_text()


def test_json_for_programs(command, site, tmp_path):
    code, out, _ = command(site, "--out", tmp_path / "pack", "--json")
    made = json.loads(out)
    assert code == 0 and made["state"]["level"] == "warn" and len(made["key"]) == 64
    code, out, _ = command("--verify", tmp_path / "pack", "--public-key", made["key"], "--json")
    assert code == 0 and json.loads(out)["stands"] is True


# --- Green, amber, red -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "code", "colour", "said"),
    [
        ({"looked": TODAY}, 0, "GREEN", "Certified"),
        ({"day": days_ago(20)}, 0, "AMBER", "never re-checked"),
        ({"day": days_ago(31)}, 3, "RED", "Not re-checked for 30 days"),
        ({"day": days_ago(90), "looked": days_ago(29)}, 0, "GREEN", "agree with it"),
        ({"day": days_ago(90), "looked": days_ago(31)}, 3, "RED", "Not re-checked for 30 days"),
        ({"day": days_ago(-1)}, 3, "RED", "which is yet to come"),
        ({"day": days_ago(-1), "looked": TODAY}, 3, "RED", "which is yet to come"),
        ({"looked": days_ago(-1)}, 3, "RED", "The re-check is dated"),
        ({"day": days_ago(9), "looked": TODAY, "leaks": True}, 3, "RED", "withdrawn"),
        ({"day": days_ago(9), "expires": days_ago(1)}, 3, "RED", "Certificate expired"),
    ],
)
def test_the_colour_is_that_of_certificate_and_recheck(
    command, tmp_path, settings, code, colour, said
):
    site = site_with(tmp_path, **settings)
    got, out, _ = command(site, "--out", tmp_path / "pack")
    assert got == code and out.startswith(f"{colour}: ") and said in out
    sentences = re.findall(r"[^.]+\.", out.splitlines()[0])
    assert len(set(sentences)) == len(sentences)
    again, out, _ = verified(command, tmp_path / "pack", site)
    assert again == code and colour in out
    if colour == "RED":
        page = (tmp_path / "pack" / "index.html").read_text()
        assert "verdict bad" in page and "Nothing on this page may be relied on" in page
        assert "It counts until" not in page and "Good until" not in page
        assert not any(
            "guessing, certified" in line["words"] for line in lines_of(tmp_path / "pack")
        )


def _not_shown(audit):
    audit["limits"][0]["limit"] = 0.05


def _unbounded(audit):
    audit["limits"] = []
    bound = audit["private"][0]["certificates"][0]
    bound |= {"certifiable": False, "reason": "few rows"}
    bound.pop("value")


@pytest.mark.parametrize(
    ("change", "said", "bound"),
    [
        (_not_shown, "A limit is not shown", "at most 6.0"),
        (_unbounded, "Not everything is certified", "an amount that the rows cannot bound"),
    ],
)
def test_an_audit_that_does_not_show_what_was_asked_is_red(command, tmp_path, change, said, bound):
    site = site_with(tmp_path, looked=TODAY)
    audit = json.loads((site / "audit.json").read_text())
    change(audit)
    (site / "audit.json").write_text(json.dumps(settle(audit)))
    code, out, _ = command(site, "--out", tmp_path / "pack")
    assert code == 3 and out.startswith(f"RED: {said}")
    code, out, _ = verified(command, tmp_path / "pack", site)
    assert code == 3 and f"RED: {said}" in out
    page = (tmp_path / "pack" / "index.html").read_text()
    assert f"Audited {TODAY}, not certified" in page
    assert f"Certified {TODAY}" not in page and "Good until" not in page
    line = next(each for each in lines_of(tmp_path / "pack") if each["id"] == "gdpr-c-0")
    assert bound in line["words"]


def test_no_interval_is_quoted_where_the_report_has_none(command, tmp_path):
    site = site_with(tmp_path)
    audit = json.loads((site / "audit.json").read_text())
    audit["public"] |= {
        "balanced": {"estimate": 0.907, "low": 0.809, "high": 0.966},
        "raw_balanced": 0.95,
        "useful": False,
        "doubt": "neighbouring rows are alike",
    }
    (site / "audit.json").write_text(json.dumps(audit))
    command(site, "--out", tmp_path / "pack")
    line = next(each for each in lines_of(tmp_path / "pack") if each["id"] == "gdpr-b-necessary")
    assert "90.7" in line["words"] and "How sure this is cannot be said" in line["words"]
    assert "80.9" not in line["words"] and "96.6" not in line["words"]


def test_a_site_without_an_audit_is_red_and_its_lines_say_so(command, tmp_path):
    site = make_site(tmp_path)
    code, out, _ = command(site, "--out", tmp_path / "pack")
    assert code == 3 and out.startswith("RED: No certificate.")
    lines = {line["id"]: line for line in lines_of(tmp_path / "pack")}
    assert lines["gdpr-c-risk"]["status"] == "not measured"
    assert "no audit is of these tables" in lines["gdpr-d-random"]["words"]
    assert "is bounded above" not in lines["cra-k"]["words"]
    assert not (tmp_path / "pack" / "audit.json").exists()


def test_an_audit_of_another_mapping_is_no_certificate(command, tmp_path):
    site = site_with(tmp_path)
    audit = json.loads((site / "audit.json").read_text()) | {"mapping_id": "sha256:" + "0" * 64}
    (site / "audit.json").write_text(json.dumps(audit))
    code, out, _ = command(site, "--out", tmp_path / "pack")
    assert code == 3 and "No certificate for this mapping" in out


@pytest.mark.parametrize("name", ["audit.json", "recheck.json"])
def test_a_damaged_file_makes_it_red(command, tmp_path, name):
    site = site_with(tmp_path, looked=TODAY)
    (site / name).write_text('{"format": "discreet-audit", "discreet-recheck": [')
    code, out, _ = command(site, "--out", tmp_path / "pack")
    assert code == 3 and out.startswith("RED: ") and name in out


def test_a_pack_that_was_good_is_red_when_its_day_has_passed(command, site, pack, monkeypatch):
    from discreet.network.evidence_pack import packing

    until = json.loads((pack / "evidence.json").read_text())["state"]["valid_until"]
    key = (site / "keys" / "bundle.pub").read_text().strip()
    day = type(TODAY).fromisoformat(until)
    assert packing.verify_pack(pack, key, day).stands
    late = packing.verify_pack(pack, key, day.replace(year=day.year + 1))
    assert not late.stands and until in late.out_of_date


# --- Whoever hands over something else -------------------------------------------------------


def resign(pack, key, **changes):
    """Sign a changed manifest as its owner could."""
    from discreet.network.evidence_pack.packing import _PURPOSE

    body = json.loads((pack / "manifest.json").read_text())
    body["files"] |= changes
    data = json.dumps(body).encode()
    (pack / "manifest.json").write_bytes(data)
    (pack / "manifest.sig").write_text(key.signature(data, _PURPOSE).hex())


def test_changed_bytes_are_refused(command, copied, site):
    page = copied / "index.html"
    page.write_text(page.read_text().replace("✓", "!"))
    page.write_text(page.read_text() + " ")
    code, _, error = verified(command, copied, site)
    assert code == 2 and "index.html was changed" in error and error.count("\n") == 1


def test_changed_bytes_with_a_fitting_manifest_are_refused(command, copied, site):
    page = copied / "index.html"
    page.write_text("all is well")
    body = (copied / "manifest.json").read_text()
    manifest = json.loads(body)
    manifest["files"]["index.html"] = {
        "sha256": hashlib.sha256(page.read_bytes()).hexdigest(), "bytes": 11,
    }  # fmt: skip
    (copied / "manifest.json").write_text(json.dumps(manifest))
    code, _, error = verified(command, copied, site)
    assert code == 2 and "the signature does not fit" in error


@pytest.mark.parametrize("name", ["evidence.json", "manifest.json", "manifest.sig", "index.html"])
def test_a_missing_file_is_refused(command, copied, site, name):
    (copied / name).unlink()
    code, _, error = verified(command, copied, site)
    assert code == 2 and f"{name} is missing" in error


def test_an_added_file_is_refused(command, copied, site):
    (copied / "more.html").write_text("x")
    code, _, error = verified(command, copied, site)
    assert code == 2 and "'more.html' is not in manifest.json" in error


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", "..", "A.json", ".hidden"])
def test_a_path_that_leaves_the_folder_is_refused(command, copied, site, name):
    key = load_or_make_key(site / "keys" / "bundle.key")
    resign(copied, key, **{name: {"sha256": "0" * 64, "bytes": 0}})
    code, _, error = verified(command, copied, site)
    assert code == 2 and "manifest.json: files." in error and error.count("\n") == 1


def test_a_link_in_the_place_of_a_file_is_refused(command, copied, site):
    (copied / "report.html").rename(copied.parent / "report.html")
    (copied / "report.html").symlink_to(copied.parent / "report.html")
    code, _, error = verified(command, copied, site)
    assert code == 2 and "report.html is no regular file" in error


def test_a_foreign_key_is_refused_and_an_unknown_one_does_not_pass(command, pack, tmp_path):
    load_or_make_key(tmp_path / "own.key")
    foreign = load_or_make_key(tmp_path / "own.key").public_hex
    code, _, error = command("--verify", pack, "--public-key", foreign)
    assert code == 2 and "is signed by key" in error
    code, out, _ = command("--verify", pack)
    assert code == 3 and "whose key this is the folder cannot show" in out


def test_a_pack_signed_again_with_another_key_is_not_the_sites(command, copied, site, tmp_path):
    key = load_or_make_key(tmp_path / "own.key")
    manifest = json.loads((copied / "manifest.json").read_text()) | {"key": key.public_hex}
    (copied / "manifest.json").write_text(json.dumps(manifest))
    resign(copied, key)
    code, _, error = verified(command, copied, site)
    assert code == 2 and "is signed by key" in error
    assert command("--verify", copied)[0] == 3


def test_a_signature_for_devices_does_not_pass_for_evidence(command, copied, site):
    key = load_or_make_key(site / "keys" / "bundle.key")
    body = (copied / "manifest.json").read_bytes()
    (copied / "manifest.sig").write_text(key.sign(body)[len(body) :].hex())
    code, _, error = verified(command, copied, site)
    assert code == 2 and "the signature does not fit" in error


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"format": 1}', "\x00"])
def test_a_manifest_that_is_none_is_refused(command, copied, site, text):
    (copied / "manifest.json").write_text(text)
    code, _, error = verified(command, copied, site)
    assert code == 2 and error.count("\n") == 1 and "Traceback" not in error


# --- As a stranger would -----------------------------------------------------------------------


def test_no_site(command, tmp_path):
    code, _, error = command(tmp_path / "nothing", "--out", tmp_path / "pack")
    assert code == 2 and "is no site" in error and not (tmp_path / "pack").exists()


def test_a_pack_in_the_place_of_a_site(command, pack, tmp_path):
    code, _, error = command(pack, "--out", tmp_path / "pack")
    assert code == 2 and "is no site" in error


def test_a_site_in_the_place_of_a_pack(command, site):
    code, _, error = command("--verify", site)
    assert code == 2 and "manifest.json is missing" in error


def test_without_out(command, site):
    code, _, error = command(site)
    assert code == 2 and "--out is missing" in error


def test_what_does_not_go_together(command, site, pack, tmp_path):
    assert "SITE is of no use" in command(site, "--verify", pack)[2]
    assert "--out is of no use" in command("--verify", pack, "--out", tmp_path / "x")[2]
    assert "--public-key is of no use" in command(site, "--out", "x", "--public-key", "0" * 64)[2]


def test_a_folder_that_is_there_is_left_alone(command, site, tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "mine.txt").write_text("mine")
    code, _, error = command(site, "--out", tmp_path / "pack")
    assert code == 2 and "is not an empty folder" in error
    assert [file.name for file in (tmp_path / "pack").iterdir()] == ["mine.txt"]


def test_nowhere_to_write(command, site, tmp_path):
    code, _, error = command(site, "--out", tmp_path / "no" / "pack")
    assert code == 2 and "there is no directory" in error


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder nobody can write")
def test_a_folder_that_may_not_be_written(command, site):
    code, _, error = command(site, "--out", "/proc/self/pack")
    assert code == 2 and "cannot be written" in error


def test_a_site_that_is_only_read_stays_as_it_was(command, tmp_path):
    site = site_with(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in site.rglob("*")}
    assert command(site, "--out", tmp_path / "pack")[0] == 0
    assert {file: file.stat().st_mtime_ns for file in site.rglob("*")} == before


def test_a_site_that_runs_goes_on_and_its_health_is_told(command, tmp_path):
    maker = healthy(tmp_path / "site")
    key = tmp_path / "my.key"
    code, out, _ = command(maker.folder, "--out", tmp_path / "pack", "--key", key)
    assert code == 0 and out.startswith("GREEN: ")
    maker.heard("hall", messages=1)  # its store is open all the while
    found = json.loads((tmp_path / "pack" / "evidence.json").read_text())
    assert found["measured"]["devices"] == 6 and found["health"]["level"] in ("good", "warn")
    maker.store.close()
    assert found["measured"]["client_certificates_required"] is None
    line = next(each for each in lines_of(tmp_path / "pack") if each["id"] == "en-acm")
    assert line["words"].startswith("Not known")


def test_a_site_in_trouble_says_so_beside_the_promise(command, tmp_path):
    maker = troubled(tmp_path / "site")
    code, out, _ = command(maker.folder, "--out", tmp_path / "pack", "--key", tmp_path / "my.key")
    maker.store.close()
    assert code == 3 and out.startswith("RED: Certificate withdrawn")
    page = (tmp_path / "pack" / "index.html").read_text()
    assert "The site needs attention" in page and "device silent" in page


@pytest.mark.parametrize(("day", "told"), [(days_ago(20), False), (days_ago(31), True)])
def test_a_fleet_shows_a_guarantee_that_is_over_and_the_pack_keeps_it_apart(
    command, tmp_path, day, told
):
    site = site_with(tmp_path, day=day)
    fleet = Fleet([str(site)])
    shorts = [each.short for each in fleet.look()[0].findings]
    fleet.close()
    assert ("Not re-checked for 30 days" in shorts) == told
    command(site, "--out", tmp_path / "pack")
    health = json.loads((tmp_path / "pack" / "evidence.json").read_text())["health"]
    assert "Not re-checked for 30 days" not in [each["short"] for each in health["findings"]]


def test_a_site_of_an_earlier_version(command, tmp_path):
    """Without devices.json, certificates.json, an id, a data folder and a key for bundles."""
    site = site_with(tmp_path)
    for name in ("devices.json", "certificates.json"):
        (site / name).unlink()
    settings = json.loads((site / "site.json").read_text())
    settings.pop("id")
    (site / "site.json").write_text(json.dumps(settings))
    (site / "data").rmdir()
    assert command(site, "--out", tmp_path / "pack")[0] == 0
    (site / "keys" / "bundle.key").unlink()
    code, _, error = command(site, "--out", tmp_path / "more")
    assert code == 2 and "Name a key with --key" in error
    code, out, _ = command(site, "--out", tmp_path / "more", "--key", tmp_path / "my.key")
    assert code == 0 and (tmp_path / "my.key").exists()
    key = out.split()[-1]
    assert command("--verify", tmp_path / "more", "--public-key", key)[0] == 0


def test_a_key_that_others_can_read(command, tmp_path):
    site = site_with(tmp_path)
    (site / "keys" / "bundle.key").chmod(0o644)
    code, _, error = command(site, "--out", tmp_path / "pack")
    assert code == 2 and "can be read by others" in error and not (tmp_path / "pack").exists()


@pytest.mark.parametrize(
    "change", [("discreet-audit", "x"), ("points", "pints"), ("</p>", " </p>")]
)
def test_a_report_of_another_audit_or_one_that_was_edited(command, site, tmp_path, change):
    other, page = tmp_path / "other.html", (site / "report.html").read_text()
    other.write_text(page.replace(*change))
    assert other.read_text() != page
    code, _, error = command(site, "--out", tmp_path / "pack", "--report", other)
    assert code == 2 and "is not the report of the site's audit.json" in error
    assert not (tmp_path / "pack").exists()


def test_a_report_that_the_audit_does_not_know(command, site, tmp_path):
    copy = shutil.copytree(site, tmp_path / "site")
    audit = json.loads((copy / "audit.json").read_text())
    del audit["report"]
    (copy / "audit.json").write_text(json.dumps(audit))
    code, _, error = command(copy, "--out", tmp_path / "pack")
    assert code == 2 and "Write both at once" in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("purpos = 'x'", "purpos: Extra inputs"),
        ("purpose = 1", "purpose: Input should be a valid string"),
        ("purpose", "is no TOML"),
    ],
)
def test_statements_that_are_none(command, site, tmp_path, text, said):
    (tmp_path / "x.toml").write_text(text)
    code, _, error = command(site, "--out", tmp_path / "p", "--statements", tmp_path / "x.toml")
    assert code == 2 and said in error and error.count("\n") == 1


@pytest.mark.parametrize("key", ["abc", "0" * 63, "nothing.pub"])
def test_a_public_key_that_is_none(command, pack, key):
    code, _, error = command("--verify", pack, "--public-key", key)
    assert code == 2 and "neither 64 hexadecimal digits nor a file" in error


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("/private/0/certificates/0/value", 0.001, "/value is not the one that its words quote"),
        ("/private/0/certificates/0/words", "", "/value is not the one that its words quote"),
        ("/private/0/certificates/0/certifiable", False, "/certifiable"),
        ("/private/0/certificates/0/confidence", 0.5, "/confidence is below"),
        ("/private/0/certificates/1/name", "advantage", "two have the same name"),
        ("/limits/0/upper", 0.001, "limits/0/upper"),
        ("/limits/0/upper", None, "limits/0/state"),
        ("/limits/0/state", "not shown", "limits/0/state"),
        ("/limits/0/limit", 0.0001, "limits/0/state"),
        ("/limits/0/limit", 0.45, "limits/0/words do not quote its limit"),
        ("/private/0/attacks/best/lower", 0.07, "/attacks/best/lower is beyond the bound"),
        ("/private/0/certificates/1/value", 0.1, "/value is not the one that its words quote"),
        ("/limits/1/upper", 0.2, "limits/1/upper is not the epsilon of 'who'"),
        ("/limits/1/limit", 4.0, "limits/1/words do not quote its limit"),
        (
            "/limits/1/words",
            "the epsilon of 'who' in one report is at most 0.1, limit of 1",
            "limits/1/words do not quote its upper",
        ),
        ("/limits/0/fact", "nobody", "limits/0/fact"),
        ("/limits/0/words", "at most 0.1 points", "limits/0/words"),
        ("/limits", [], "verdict does not follow"),
        ("/verdict", "WITHIN LIMITS: all is well.", "verdict does not follow"),
        ("/conditions", ["rows are apart"], "verdict does not follow"),
        ("/ok", False, "ok does not follow"),
        ("/public/error", 0.001, "public/error"),
        ("/public/useful", False, "public/useful"),
        ("/public/balanced/estimate", 0.999, "public/balanced/estimate"),
    ],
)
def test_an_audit_that_was_edited_is_refused_by_the_field(command, tmp_path, place, value, named):
    site = site_with(tmp_path, looked=TODAY)
    audit = json.loads((site / "audit.json").read_text())
    audit["public"] |= {"balanced": {"estimate": 0.93, "low": 0.9, "high": 0.95}, "useful": True}
    audit["limits"].append({"name": "epsilon", "limit": 1.0, "state": "met", "words": ""})
    audit = settle(audit)
    (site / "audit.json").write_text(json.dumps(audit))
    assert command(site, "--out", tmp_path / "before")[0] == 0
    parent, _, name = place.rpartition("/")
    at(audit, parent)[name] = value
    (site / "audit.json").write_text(json.dumps(audit))
    code, out, _ = command(site, "--out", tmp_path / "pack")
    assert code == 3 and out.startswith("RED: Certificate cannot be checked")
    assert "audit.json: contradicts itself: " in out and named in out
    assert not (tmp_path / "pack" / "audit.json").exists()


def _more_reports(audit):
    _over_ten_reports(audit)
    audit = settle(audit)
    return audit | {"releases": 10_000}


def _more_than_always(audit):
    words = "no attacker beats guessing by more than 60.0 points"
    audit["private"][0]["certificates"][0] |= {"value": 0.6, "words": words}
    return settle(audit)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_more_reports, "words are not about the reports"),
        (_more_than_always, "value is beyond what being always right gains"),
        (lambda audit: audit | {"rows": 0}, "rows must be"),
        (lambda audit: audit | {"confidence": 0}, "confidence must be"),
    ],
)
def test_an_audit_that_cannot_be_is_red(command, tmp_path, change, named):
    site = site_with(tmp_path, looked=TODAY)
    audit = change(json.loads((site / "audit.json").read_text()))
    (site / "audit.json").write_text(json.dumps(audit))
    code, out, _ = command(site, "--out", tmp_path / "pack")
    assert code == 3 and out.startswith("RED: Certificate cannot be checked") and named in out


def test_an_audit_that_is_not_what_it_seems(command, tmp_path):
    """Figures of another type than an audit has: red, not a traceback."""
    site = site_with(tmp_path)
    audit = json.loads((site / "audit.json").read_text())
    audit["other_secrets"] = {"found": [{"column": "x", "gain": "much", "from_answer": []}]}
    (site / "audit.json").write_text(json.dumps(audit))
    code, out, error = command(site, "--out", tmp_path / "pack")
    assert code == 3 and out.startswith("RED: ") and "Traceback" not in error
