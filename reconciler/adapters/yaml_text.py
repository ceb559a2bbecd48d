"""From a file's bytes to the text that the YAML parser sees, and from the parser's complaints to plain words.

One rule for all readers: UTF-8 without control characters, at most so many bytes. A byte-order mark is ignored; CRLF and
a lone CR are LF, so that converting line ends changes nothing.
Invariant: columns and lines count from 1, in characters, on the text that `decoded` returns.
"""

import re
from typing import Final

from yaml.error import MarkedYAMLError, YAMLError

from reconciler.adapters.showing import capped, quoted
from reconciler.model.problem import Invalid, Problem

_BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
# What YAML forbids, its three line ends beyond LF (readers count lines differently by them), and the signs that turn the
# direction of writing, by which a text can show something else than it says.
FORBIDDEN: Final = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_JSON_PIECE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\t', re.DOTALL)
_JSON_ESCAPE: Final = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\.", re.DOTALL)


def decoded(body: bytes, path: str, size_limit: int) -> str:
    """The text of a file, with LF line ends and no byte-order mark. `size_limit` in bytes. Raises Invalid."""
    if len(body) > size_limit:
        what = f"the file has {len(body)} bytes, the limit is {size_limit}"
        raise Invalid([Problem(path, 0, 0, "TooLarge", what, "split it, or keep large content elsewhere")])
    if body.startswith(_UTF16) or b"\0" in body[:4]:
        todo = "save the file as UTF-8"
        raise Invalid([Problem(path, 1, 1, "NotUtf8", "the file is not UTF-8 (it looks like UTF-16 or UTF-32)", todo)])
    body = body.removeprefix(_BOM)
    text = _utf8(body, path)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if FORBIDDEN.search(text):
        raise Invalid(capped(_control_characters(text, path)))
    return _json_as_yaml(text) if path.lower().endswith(".json") else text


def _utf8(body: bytes, path: str) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = _not_utf8(body, error.start, path)
    raise Invalid([problem])  # outside, for the decoder's error carries the whole file along


def _not_utf8(body: bytes, offset: int, path: str) -> Problem:
    before = body[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    line_start = before.rfind(b"\n") + 1
    line, column = before.count(b"\n") + 1, len(before[line_start:].decode("utf-8")) + 1
    what = f"the file is not UTF-8: byte 0x{body[offset]:02x} on line {line} begins no UTF-8 character"
    return Problem(path, line, column, "NotUtf8", what, "save the file as UTF-8 (it may be Latin-1 or Windows-1252)")


def _control_characters(text: str, path: str) -> list[Problem]:
    """One problem for each line that holds any."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if match := FORBIDDEN.search(line):
            what = f"the line holds the character U+{ord(match.group()):04X}, which cannot be seen"
            found.append(Problem(path, number, match.start() + 1, "ControlCharacter", what, "remove it"))
    return found


def _json_as_yaml(text: str) -> str:
    """JSON that the YAML parser reads as JSON readers do: tabs between tokens are spaces, surrogate pairs one escape."""
    if "\t" not in text and "\\u" not in text:
        return text

    def piece(match: re.Match[str]) -> str:
        return " " if match.group() == "\t" else _JSON_ESCAPE.sub(_joined, match.group())

    return _JSON_PIECE.sub(piece, text)


def _joined(match: re.Match[str]) -> str:
    high, low = match.groups()
    if high is None:
        return match.group()
    return f"\\U{0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00:08x}"


# ---- the parser's complaints --------------------------------------------------------------------------------------

_QUOTE: Final = "put the value in quotes if it is text"
_ALIGN: Final = "indent it with spaces, exactly as the lines that it belongs with"
_ESCAPE: Final = "write `\\\\` for a backslash, or use single quotes"
# A piece of libyaml's words, the same in plain words, what to do. Where the context matters it stands before the `|`.
_WORDS: Final[tuple[tuple[str, str, str], ...]] = (
    ("anchor|alphabetic or numeric", "a value cannot begin with `&`", _QUOTE),
    ("alias|alphabetic or numeric", "a value cannot begin with `*`", _QUOTE),
    ("tag|", "a value cannot begin with `!`", _QUOTE),
    ("undefined tag handle", "a value cannot begin with `!`", _QUOTE),
    ("mapping values are not allowed", "a `:` is not expected here", f"{_QUOTE}; else check the indentation of this line"),
    ("mapping keys are not allowed", "a `?` is not expected here", _QUOTE),
    ("could not find expected ':'", "this line is not of the form `name: value`", "write the `:`, or check the indentation"),
    ("block sequence entries", "a list item (`- `) is not expected here", "put the list on lines of its own below its name"),
    ("expected '-' indicator", "this line is not an item of the list above it", f"begin it with `- `, or {_ALIGN}"),
    ("block mapping|expected key", "this line fits none of the lines above it", _ALIGN),
    ("expected ',' or ']'", "a list in [ ] is not closed, or a `,` is missing in it", "write the `,` or the `]`"),
    ("expected ',' or '}'", "a mapping in { } is not closed, or a `,` is missing in it", "write the `,` or the `}`"),
    ("quoted scalar|end of stream", "a quote that opens here is never closed", "write the closing quote"),
    ("quoted scalar|document indicator", "a quote that opens here is never closed", "write the closing quote"),
    ("unknown escape character", "a `\\` in double quotes begins an escape that YAML does not know", _ESCAPE),
    ("hexdecimal number", "a `\\x`, `\\u` or `\\U` in double quotes lacks its digits", _ESCAPE),
    ("invalid Unicode character", "a `\\u` or `\\U` in double quotes names no character", _ESCAPE),
    ("expected node content", "a value is missing here, or a bracket closes nothing", f"write the value; {_QUOTE}"),
    ("expected <document start>", "there is more after the end of the value", "check the quotes and the indentation"),
    ("document start", "there is more after the end of the value", "check the quotes and the indentation"),
    ("incompatible YAML document", "the file asks for another version of YAML", "remove the line that begins with `%YAML`"),
    ("directive|", "a line that begins with `%` is not understood", "remove it, or put the value in quotes"),
    ("block scalar|", "the text block that begins here is not well formed", "indent its lines with spaces, all alike"),
    ("cannot start any token", "a value cannot begin with this character", _QUOTE),
)


def syntax_problem(error: YAMLError, text: str, path: str) -> Problem:
    """What the parser could not read, where, in words for people who do not know parsers."""
    if not isinstance(error, MarkedYAMLError) or error.problem is None:
        return Problem(path, 0, 0, "YamlSyntax", "the YAML parser cannot read the file", "check it with another YAML reader")
    mark, opened = error.problem_mark, error.context_mark
    lines = text.split("\n")
    at_end = mark is None or not "".join(lines[mark.line :])[mark.column :].strip()
    if opened is not None and (at_end or "never closed" in _plain_words(error)[0]):
        mark, opened = opened, None
    if mark is None:
        return Problem(path, 0, 0, "YamlSyntax", *_plain_words(error))
    line = lines[mark.line] if mark.line < len(lines) else ""
    code, what, todo = "YamlSyntax", *_plain_words(error)
    if "tab" in error.problem.split() or re.match(r" *(?:[-?:] *)?\t", line):
        code, what, todo = "TabIndent", "a tab is used for indentation", "indent with spaces"
    elif "\xa0" in line:
        todo = "the line holds a no-break space (U+00A0): replace it with a plain space"
    elif opened is not None and opened.line != mark.line:
        what += f" (it began on line {opened.line + 1})"
    return Problem(path, mark.line + 1, mark.column + 1, code, what, todo)


def _plain_words(error: MarkedYAMLError) -> tuple[str, str]:
    problem, context = error.problem or "", error.context or ""
    for piece, what, todo in _WORDS:
        wanted_context, bar, wanted = piece.rpartition("|")
        if wanted in problem and (not bar or wanted_context in context):
            return what, todo
    return f"the YAML parser says {quoted(problem)}", "mend the file at this place"
