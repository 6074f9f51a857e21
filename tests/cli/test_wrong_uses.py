"""Wrong uses of every command: one message with cause, value and remedy, and nothing left behind.

Each case is what was typed, and parts of the message: what is wrong with the value that was seen,
and what to do next.
"""

import errno
import json

import pytest
from support.commands import FACTS, rooms, run

from discreet.cli import COMMANDS

LEARN = f"learn home.csv {' '.join(FACTS)} --out m.json"
FRONTIER = f"frontier home.csv {' '.join(FACTS)} --out f.json"
NO_MAPPING = ("other.json: is not a discreet mapping", "Give the file that `discreet learn` wrote")
NO_SITE = ("nowhere: is no site", "Make one: discreet init")
NO_FILE = "no such file. Check the path"
USES = {
    # --- Names of commands and options
    "lern": ("No such command 'lern'", "Did you mean 'learn'?"),
    "--nothing": ("--nothing", "See: discreet --help"),
    "learn": ("Missing argument 'TABLE", "See: discreet learn --help"),
    "learn home.csv --out m.json": ("Missing option '--public'", "See: discreet learn --help"),
    "learn home.csv --public fall --out m.json": ("Missing option '--private'", "--help"),
    f"{LEARN} --max-adv 0.1": ("No such option: --max-adv", "--max-advantage"),
    # --- Tables and columns
    f"learn none.csv {' '.join(FACTS)} --out m.json": ("none.csv", NO_FILE),
    f"learn home.csv more.csv {' '.join(FACTS)} --out m.json": ("more.csv", NO_FILE),
    f"learn folder {' '.join(FACTS)} --out m.json": ("folder: is a directory", "Name a file"),
    f"learn notes.txt {' '.join(FACTS)} --out m.json": ("'.txt'", "Use one of .csv"),
    f"learn day-*.csv {' '.join(FACTS)} --out m.json": ("day-*.csv: no file matches", "Check it"),
    f"learn empty.csv {' '.join(FACTS)} --out m.json": ("empty.csv: is empty", "header line"),
    f"learn header.csv {' '.join(FACTS)} --out m.json": ("header.csv", "Add rows"),
    f"learn ragged.csv {' '.join(FACTS)} --out m.json": ("line 2 has 2 values", "Fix the line"),
    f"learn binary.csv {' '.join(FACTS)} --out m.json": ("byte 0x80", "Save the table as UTF-8"),
    f"learn one.csv {' '.join(FACTS)} --out m.json": ("one class only, 'ann'", "Choose another"),
    "learn home.csv --public fal --private who --out m.json": ("'fal'", "Did you mean 'fall'?"),
    "learn home.csv --public fall --private whom --out m.json": ("'whom'", "Did you mean 'who'?"),
    "learn home.csv --public fall --private fall --out m.json": ("twice", "Name each fact once"),
    f"{LEARN} --sensors hal": ("no column 'hal' for the sensors", "Did you mean 'hall'?"),
    f"{LEARN} --sensors who": ("'who' is a fact", "Take it out"),
    f"{LEARN} --exclude attic": ("no column 'attic'", "There are: 'hall'"),
    f"{LEARN} --exclude hall,door,day": ("no sensor columns are left", "exclude fewer"),
    f"{LEARN} --group attic": ("no column 'attic' for the groups", "There are: 'hall'"),
    f"{LEARN} --group who": ("'who' is the private fact", "Group by another column"),
    f"{LEARN} --time-column attic": ("no column 'attic' for the times", "There are: 'hall'"),
    # --- Values of options
    f"{LEARN} --max-advantage 2": ("got 2.0", "must be strictly between 0 and 1"),
    f"{LEARN} --max-advantage much": ("'much'", "See: discreet learn --help"),
    f"{LEARN} --epsilon 0": ("got 0.0", "must be a finite number above 0"),
    f"{LEARN} --epsilon nan": ("got nan", "must be a finite number above 0"),
    f"{LEARN} --ratio 1.5": ("got 1.5", "must be strictly between 0 and 1"),
    f"{LEARN} --ldp-epsilon -2": ("got -2.0", "must be a finite number above 0"),
    f"{LEARN} --method bayes": ("got bayes", "must be one of auto"),
    f"{LEARN} --method model": ("--method model is gone", "Use --method auto"),
    f"{LEARN} --kernel rbf": ("got rbf", "must be one of product"),
    f"{LEARN} --loss zero": ("got zero", "must be one of logistic"),
    f"{LEARN} --loss hinge": ("--method auto minimises no loss", "use --method npo"),
    f"{LEARN} --symbols hall=1000": ("got 1000 for 'hall'", "from 2 to 256"),
    f"{LEARN} --symbols attic=2": ("'attic', which is no sensor", "There are: 'hall'"),
    f"{LEARN} --bins 1": ("got 1", "from 2 to 1000"),
    f"{LEARN} --binning magic": ("got magic", "must be one of merged"),
    f"{LEARN} --decide often": ("got 'often'", "such as cost=fall:10"),
    f"{LEARN} --holdout 1": ("got 1.0", "must be at least 0 and below 1"),
    f"{LEARN} --seed -1": ("got -1", "must be from 0"),
    f"{LEARN} --time-limit soon": ("got 'soon'", "such as 60s, 5m or 1h"),
    f"{LEARN} --memory lots": ("got 'lots'", "such as 500M or 8G"),
    f"{LEARN} --rounds 0": ("got 0", "must be at least 1"),
    f"{LEARN} --rounds 9": ("--rounds 9 needs to know", "Give --max-advantage"),
    f"{LEARN} --stay 0.9": ("--stay was given without --rounds", "Give both"),
    f"{LEARN} --dask nowhere": ("got 'nowhere'", "such as tcp://10.0.0.5:8786, or local:N"),
    f"{LEARN} --dask local:0": ("got 'local:0'", "takes 1 to 256 workers"),
    f"{LEARN} --config none.toml": ("none.toml: cannot be read", "--write-config"),
    f"{LEARN} --config notes.txt": ("notes.txt is no TOML file", "--write-config"),
    # --- Where results go
    f"learn home.csv {' '.join(FACTS)} --out folder": ("is a directory", "Name a file in it"),
    f"learn home.csv {' '.join(FACTS)} --out no/m.json": ("there is no directory", "Make it first"),
    f"learn home.csv {' '.join(FACTS)} --out home.csv": ("is what is read", "Name another file"),
    # --- Audits, and what is made of them
    "audit none.json home.csv": ("none.json", NO_FILE),
    "audit other.json home.csv": NO_MAPPING,
    "audit broken.json home.csv": ("is not JSON", "Restore the file from a good copy"),
    "audit home.csv other.json": ("the mapping comes first, then the table", "Swap them"),
    "audit other.json home.csv --confidence 2": ("got 2.0", "must be at least 0.5"),
    "audit other.json home.csv --html folder": ("is a directory", "Name a file in it"),
    "audit other.json home.csv --rounds 3": ("--rounds 3 needs to know", "--time-column"),
    "recheck home.csv other.json": ("the mapping comes first, then the table", "Swap them"),
    "recheck other.json home.csv": NO_MAPPING,
    "diff other.json home.json": NO_MAPPING,
    "budget home.csv other.json": ("the mapping comes first, then the table", "Swap them"),
    "budget other.json --rounds 0": ("got 0", "must be at least 1"),
    "plan --sensors 0 --max-advantage 0.1": ("got 0", "must be from 1 to 1000"),
    "plan --sensors 4 --noise 2 --max-advantage 0.05": ("got 2.0", "at least 0 and below 1"),
    f"{FRONTIER} --methods nope": ("got nope", "each must be one of auto"),
    f"{FRONTIER} --ratios 2": ("got 2", "strictly between 0 and 1"),
    "plot none.json --out a.svg": ("none.json: there is no such file", "Write it with"),
    "plot other.json --out a.pdf": ("got 'a.pdf'", "ends in .svg or .png"),
    "export other.json --to cobol --out x": ("got cobol", "must be one of python"),
    "export other.json --to c --out x": NO_MAPPING,
    # --- Logs
    "import none.db --out x.csv": ("none.db", NO_FILE),
    "import notes.txt --out x.csv": ("no column is called", "Name it with --time-column"),
    "record http://x --out x.jsonl": ("'http://x' is no address", "Write mqtt://HOST/TOPIC"),
    "check none.csv": ("none.csv", NO_FILE),
    # --- Sites
    "init site --mapping none.json": ("none.json", NO_FILE),
    "init site --mapping other.json": NO_MAPPING,
    "enroll hall --site nowhere": NO_SITE,
    "revoke hall --site nowhere": NO_SITE,
    "serve nowhere": NO_SITE,
    "dashboard nowhere": NO_SITE,
    "fleet nowhere": ("nowhere: no such folder", "Name a site"),
    "sensor none.enrol --state s": ("none.enrol", NO_FILE),
    "backup out --site nowhere": NO_SITE,
    "restore nowhere --site s": ("nowhere: no such backup", "Check the path"),
    "forget hall --site nowhere": ("nowhere: the site cannot be changed", "Name a site"),
    "renew-site --site nowhere": ("nowhere: the site cannot be changed", "Name a site"),
    "change-mapping other.json --site nowhere": NO_MAPPING,
    "evidence nowhere --out pack": NO_SITE,
    "evidence other.json --out pack": ("other.json: is no site", "Make one: discreet init"),
    "evidence folder": ("--out is missing", "name a new folder, or --verify one"),
    "evidence folder --verify folder": ("SITE is of no use for --verify", "Leave it out"),
    "evidence --verify nowhere": ("nowhere: no such folder", "Name one that discreet evidence"),
    "evidence --verify folder --public-key zz": ("'zz'", "64 hexadecimal digits"),
    "evidence folder --out pack --public-key zz": ("--public-key is of no use", "Leave it out"),
    "demo --keep --for 3": ("--keep was given together with --for 3", "Give one of them"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rooms().to_csv("home.csv", index=False)
    rooms().assign(who="ann").to_csv("one.csv", index=False)
    (tmp_path / "folder").mkdir()
    for name, text in {"empty.csv": b"", "header.csv": b"hall,fall,who\n", "notes.txt": b"x\n",
                       "ragged.csv": b"hall,fall,who\n1,2\n", "binary.csv": bytes(range(256)),
                       "other.json": b"{}", "broken.json": b"{"}.items():  # fmt: skip
        (tmp_path / name).write_bytes(text)
    return tmp_path


def contents(folder):
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize("typed", USES)
def test_a_wrong_use_is_one_message_with_cause_value_and_remedy(typed, folder, monkeypatch, capsys):
    before = contents(folder)
    code, printed, message = run(monkeypatch, capsys, *typed.split())
    assert code == 2 and printed == ""
    assert message.startswith("discreet: ") and message.count("\n") == 1
    assert all(part in message for part in USES[typed]), message
    assert contents(folder) == before


def test_every_command_is_used_wrongly_and_more_than_sixty_ways_are_tried():
    used = {typed.split()[0] for typed in USES}
    assert set(COMMANDS) - used <= {"doctor"}  # which reports what is wrong instead
    assert len(USES) > 60


def test_all_problems_of_a_table_are_named_at_once(folder, monkeypatch, capsys):
    rooms().head(1).to_csv("row.csv", index=False)
    code, _, message = run(monkeypatch, capsys, "learn", "row.csv", *FACTS, "--out", "m.json")
    assert code == 2 and message.count("\n") == 1
    assert "3 problems: (1) the table has 1 rows" in message
    assert "(2) public fact 'fall' has one class only" in message
    assert "(3) private fact 'who' has one class only" in message
    assert not (folder / "m.json").exists()


def test_a_result_is_replaced_whole_and_a_failure_leaves_the_former_one(
    folder, monkeypatch, capsys
):
    (folder / "m.json").write_text("what was there")
    typed = ("learn", "one.csv", *FACTS, "--out", "m.json")
    assert run(monkeypatch, capsys, *typed)[0] == 2
    assert (folder / "m.json").read_text() == "what was there"
    typed = ("learn", "home.csv", *FACTS, "--out", "m.json", "--method", "randomized-response")
    assert run(monkeypatch, capsys, *typed, "--ldp-epsilon", "1", "--exclude", "day")[0] == 0
    assert json.loads((folder / "m.json").read_text())["format"] == "discreet-mapping"


def test_what_the_system_refuses_is_not_called_a_full_disk(folder, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("discreet.cli.command_line", refuse)
    code, _, message = run(monkeypatch, capsys, "plan")
    assert (code, message) == (2, "discreet: the system refuses (Too many open files).\n")
