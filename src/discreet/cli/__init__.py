"""The command line: one file per command, with its options, what it does and what it prints.

A command's file is imported when the command is asked for, and the numerical libraries inside its
functions, so that ``--help`` answers at once. Every mistake is one message on stderr and exit
code 2.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from discreet import __version__
from discreet.cli.options import GroupedCommand, in_option_terms
from discreet.cli.terminal import forgive_stderr
from discreet.errors import DiscreetError, StoppedError
from discreet.stopping import code_of_result, end_with

BAD_INPUT = 2
SIGNALLED = 128  # and the number of the signal, as shells have it: 130, 143, 129
UNREAD = 1
# What all versions of Typer say of a text where a number belongs.
_NO_NUMBER = re.compile(r"Invalid value for '(.+?)': .*\bvalid (number|float|integer)\b")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}

COMMANDS = {  # in the order of the help; the file of each
    "import": "import_log",
    "record": "record",
    "check": "check",
    "learn": "learn",
    "audit": "audit",
    "recheck": "recheck",
    "diff": "diff",
    "plan": "plan",
    "budget": "budget",
    "frontier": "frontier",
    "plot": "plot",
    "export": "export",
    "demo": "demo",
    "init": "init",
    "enroll": "enroll",
    "revoke": "enroll",
    "renew-site": "renew_site",
    "change-mapping": "change_mapping",
    "forget": "forget",
    "sensor": "sensor",
    "serve": "serve",
    "dashboard": "dashboard",
    "doctor": "doctor",
    "fleet": "fleet",
    "evidence": "evidence",
    "backup": "backup",
    "restore": "backup",
}


# --- Running -------------------------------------------------------------------------------


def main() -> None:
    """Run the command line; every foreseen mistake ends in one message."""
    if not sys.warnoptions:  # libraries speak to programmers; what users need is said in words
        warnings.simplefilter("ignore")
    _open_what_is_closed()
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal cannot write is no reason
        sys.stdout.reconfigure(errors="backslashreplace")  # to lose the result
    forgive_stderr()
    try:
        code = command_line(sys.argv[1:])(prog_name="discreet", standalone_mode=False)
    except StoppedError as error:
        _fail(str(error), SIGNALLED + error.signal)
    except DiscreetError as error:
        _fail(in_option_terms(error), BAD_INPUT)
    # Whoever read the output has gone, as `head` does; Typer makes an exit of the first.
    except (BrokenPipeError, SystemExit):
        _print_no_more()
        _leave(code_of_result(UNREAD))
    except OSError as error:
        if error.errno not in _FULL:
            _fail(f"the system refuses ({error.strerror or error}).", BAD_INPUT)
        _print_no_more()
        words = f"the output cannot be written ({error.strerror or error})."
        _fail(words, code_of_result(BAD_INPUT))
    except Exception as error:
        # Typer's own errors derive from Click's or, in newer versions, from a copy of them.
        if not hasattr(error, "format_message"):
            raise
        _fail(_usage_message(error, sys.argv[1:]), BAD_INPUT)
    _leave(code if isinstance(code, int) else 0)


def _open_what_is_closed() -> None:
    """Print to nobody, and read nothing, where a stream is closed: a file would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nobody = os.open(os.devnull, os.O_RDWR)
            os.dup2(nobody, number)
            os.set_inheritable(number, True)
            if nobody != number:
                os.close(nobody)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _print_no_more() -> None:
    """Let what is still to be printed go nowhere: it would fail again at the end."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)


def _usage_message(error: Any, arguments: Sequence[str]) -> str:
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "discreet"
    text = " ".join(error.format_message().split())
    param = getattr(error, "param", None)
    seen = _value_of(param, arguments)
    if seen is None and getattr(error, "ctx", None) is not None:  # a file of options may say it
        seen = (error.ctx.default_map or {}).get(getattr(param, "name", None))
    if seen is not None and (found := _NO_NUMBER.match(text)):
        text = f"{found[1]} must be {'a whole number' if found[2] == 'integer' else 'a number'}"
    if seen is not None and repr(seen) not in text:
        text = f"{text.rstrip('.')}, got {seen!r}"
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} See: {command} --help"


def _value_of(param: Any, arguments: Sequence[str]) -> str | None:
    """Return what was typed for an option, which Typer does not always repeat."""
    for option in getattr(param, "opts", ()):
        for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
            if argument == option:
                return following
            if argument.startswith(f"{option}="):
                return argument.removeprefix(f"{option}=")
    return None


def _fail(message: str, code: int) -> NoReturn:
    end_with(code)  # the line may find nobody who reads it
    print(f"discreet: {message}".replace("\n", " "), file=sys.stderr)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    end_with(code)
    sys.exit(code)


# --- Commands ------------------------------------------------------------------------------


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"discreet {__version__}")
        raise typer.Exit


def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Sensors that answer one question and keep quiet about the rest.

    Example:

        discreet demo
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """Return the command that is asked for, or all where none is."""
    asked = [each for each in arguments[:1] if each in COMMANDS]
    app = typer.Typer(
        add_completion=not asked,  # in a shell that completes, nothing was asked
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(root)
    for name in asked or COMMANDS:
        found = import_module(f"discreet.cli.{COMMANDS[name]}")
        function = COMMANDS[name] if name == "import" else name  # a keyword cannot be a function
        app.command(name, cls=GroupedCommand)(getattr(found, function.replace("-", "_")))
    return app
