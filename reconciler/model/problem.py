"""What is wrong with a file somebody wrote, said so that they can mend it.

A problem is a value, not an exception: a reader returns all problems of a file at once, and the file
alone is refused. Its text form is `file:line:col: CODE: what; what to do`.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault in one file. `line` and `column` count from 1; 0 means the file as a whole.

    `code` is a PascalCase word of a closed set (docs/concepts.md lists them); `what` says what is wrong without
    ever repeating a value that may be a secret; `todo` says what to do about it.
    """

    path: str
    line: int
    column: int
    code: str
    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.code}: {self.what}; {self.todo}"


class Invalid(Exception):
    """A file was refused. The writer must act; trying again as it is cannot help."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
