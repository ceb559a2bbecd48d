"""How a command ends: its exit code, and what went wrong in two lines, what it is and what to do about it.

0: done. 1: what the caller named or wrote is wrong, or the job did not end well. 2: it could not be done here or now (the
call itself, the repository, the store, the remote). Invariant: nobody sees a traceback who has not asked for it.
"""

import os
import sys
from collections.abc import Callable
from typing import Final

from reconciler.model.problem import Invalid
from reconciler.ports import Conflict, Refused, Transient

DONE: Final = 0
INPUT: Final = 1
WORLD: Final = 2

_TRACEBACK: Final = "RECONCILER_TRACEBACK"


class BadInput(Exception):
    """What the caller named or wrote cannot be used. `todo` says what to do instead."""

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(what)
        self.what = what
        self.todo = todo


class AnswerIsNo(Exception):
    """The command was carried out, has said what it found, and that is not well."""


def guarded(run: Callable[[], object]) -> int:
    """Run a command to its end and return its exit code. SystemExit and KeyboardInterrupt pass."""
    try:
        run()
    except AnswerIsNo:
        return INPUT
    except BadInput as error:
        _say(error.what, error.todo)
        return INPUT
    except Invalid as error:
        for problem in error.problems:
            sys.stderr.write(f"{_shown(str(problem))}\n")
        return INPUT
    except (Refused, Transient, Conflict) as error:
        _say(*in_two(error))
        return WORLD
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        _say(f"{type(error).__name__}: {error}", f"this is a fault of the program; set {_TRACEBACK}=1 to see where it is")
        return WORLD
    return DONE


def in_two(error: Refused | Transient | Conflict) -> tuple[str, str]:
    """What went wrong and what to do, from an adapter's words: `what; what to do`."""
    if isinstance(error, Refused):
        what, _, todo = str(error).rpartition("; ")
        return (what, todo) if what else (str(error), "a person has to mend that first")
    return str(error), "try again; if it stays so, see whether the repository and the store can be reached from here"


def _say(what: str, todo: str) -> None:
    sys.stderr.write(f"reconciler: {_one_line(what)}\n  {_one_line(todo)}\n")


def _one_line(text: str) -> str:
    return _shown(" ".join(text.split()))


def _shown(text: str) -> str:
    """The text without what would speak to the terminal: what was typed, and names of files, may hold anything."""
    from reconciler.hub.repo_files import printable  # only here, for a command that ends well must not wait for it

    return printable(text)
