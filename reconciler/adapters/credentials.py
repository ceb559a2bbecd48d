"""What a credential looks like: the known shapes of tokens, the names that hold secrets, texts that look drawn by lot.

Pure rules over strings. `secret_lint` refuses files by them; `showing` keeps such texts out of every message. The two
want different strictness: a refusal must be sure, a message may hide too much.
"""

import re
from collections.abc import Iterator
from typing import Final

_SHAPES: Final = (
    ("a Hugging Face token", r"hf_[A-Za-z0-9]{20,}"),
    ("a GitHub token", r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}"),
    ("a GitLab token", r"gl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_.-]{16,}"),
    ("an AWS access key", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("a Slack token", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    ("an API key", r"sk-(?:ant|proj|or|svcacct|admin)-[A-Za-z0-9_-]{20,}"),
    ("an API key", r"sk(?:-|_live_|_test_)(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}"),
    ("a Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    ("an NVIDIA API key", r"nvapi-[A-Za-z0-9_-]{30,}"),
    ("a Weights & Biases key", r"wandb_v[0-9]_[A-Za-z0-9_]{20,}"),
    ("a Docker Hub token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    ("a package registry token", r"npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{30,}"),
    ("a signed token (JWT)", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
)
# One of these stands in every shape and phrase, a password in a URL apart.
_MARKS: Final = (
    "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-",
    "AKIA", "ASIA", "xox", "xapp-", "sk-", "sk_live_", "sk_test_", "AIza", "nvapi-", "wandb", "dckr_", "npm_", "pypi-", "eyJ",
    "PRIVATE KEY", "sig=", "uthorization",
)  # fmt: skip
# The boundary before a shape keeps `task-…` apart from `sk-…`, and the search linear on any text.
_TOKEN: Final = re.compile(r"(?<![A-Za-z0-9_-])(?:" + "|".join(f"({shape})" for _, shape in _SHAPES) + ")")
_URL_PASSWORD: Final = re.compile(r"://[^\s/:@'\"<>]*:([^\s/@'\"<>{}$*]{4,})@[A-Za-z0-9\[]")
_PHRASES: Final = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")),
    (
        "a Weights & Biases key",
        re.compile(
            r"\bwandb[ \t]+login\b(?:[ \t]+--?[a-z][\w-]*(?:=\S+)?|[ \t]+https?://\S+)*"
            r"[ \t]+['\"]?([0-9a-f]{40}|[A-Za-z0-9_]{60,})"
        ),
    ),
    ("a password in a URL", _URL_PASSWORD),
    ("a signed URL", re.compile(r"[?&]sig=([A-Za-z0-9%/+=]{30,})")),
    (
        "an Authorization header",
        re.compile(r"\b[Aa]uthorization['\"]?[ ]?[:=][ ]?['\"]?(?:[Bb]earer|[Bb]asic|[Tt]oken)[ ]([A-Za-z0-9+/=._~-]{16,})"),
    ),
)

_FULL_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:TOKEN|SECRET|CREDENTIALS?|API[_-]?KEY|ACCESS[_-]?KEY|SECRET[_-]?KEY|PRIVATE[_-]?KEY|AUTH[_-]?KEY)[_-]?[0-9]{0,2}$",
    re.IGNORECASE,
)
_PASSWORD_NAME: Final = re.compile(r"(?:^|[_.-])(?:[A-Z]{0,16}PASSWORD|PASSWD|PASSPHRASE)[_-]?[0-9]{0,2}$", re.IGNORECASE)
_KEY_NAME: Final = re.compile(r"[_.-]KEY[_-]?[0-9]{0,2}$", re.IGNORECASE)
_ORDINARY_KEY: Final = re.compile(
    r"(?:CACHE|CONTENT|COMMIT|DATA|DIGEST|GROUP|HASH|INDEX|OBJECT|PARTITION|PRIMARY|PUBLIC|ROUTING|S3|SHARD|SORT|UNIQUE)[_.-]KEY[_-]?[0-9]{0,2}$",
    re.IGNORECASE,
)
_HIDING_NAME: Final = re.compile(r"token|secret|passw|passphrase|credential|key|auth(?!or)", re.IGNORECASE)
_HIDDEN_FIELDS: Final = frozenset({"env", "args", "command", "files", "content"})

_REFERENCE: Final = re.compile(r"\$[({A-Za-z_]|\{\{|^%\w+%$|^<.*>$|^\[.*\]$|\|")
_PATH: Final = re.compile(r"^(?:~?/|\.{1,2}/|[a-z][a-z0-9+.-]*://)|\.[A-Za-z][A-Za-z0-9]{1,7}$")
_UUID: Final = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_WIDE_RUN: Final = re.compile(r"[A-Za-z0-9_+=]{20,}")
_CHANGE: Final = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")

_SECRET_PARTS: Final = ("key", "token", "secret", "passw", "passphrase", "credential")
MIN_SECRET: Final = 16
MIN_PASSWORD: Final = 8


def may_hold_credential(text: str) -> bool:
    """False only where `credentials_in` would find nothing; quick."""
    for mark in _MARKS:  # a loop: `any` over a generator takes three times as long, and this runs for every file
        if mark in text:
            return True
    return _URL_PASSWORD.search(text) is not None


def may_hold_assignment(text: str) -> bool:
    """False only where no name in `text` can make `is_secret_assignment` true; quick."""
    lowered = text.lower()
    for part in _SECRET_PARTS:  # noqa: SIM110 - see above
        if part in lowered:
            return True
    return False


def credentials_in(text: str) -> Iterator[tuple[str, int, str]]:
    """Each credential of a known shape in `text`: its kind, where it starts, and itself. Linear in the text's length."""
    if not may_hold_credential(text):
        return
    for match in _TOKEN.finditer(text):
        yield _SHAPES[(match.lastindex or 1) - 1][0], match.start(), match.group()
    for kind, pattern in _PHRASES:
        for match in pattern.finditer(text):
            group = match.lastindex or 0
            yield kind, match.start(group), match.group(group)


def is_secret_assignment(name: str, value: str) -> bool:
    """Whether a variable or flag of this name holds, in `value`, a secret written out.

    References such as `$(HF_TOKEN)`, paths, placeholders and the names of Kubernetes Secrets are not. A token must look
    drawn by lot, for tokenizers have tokens too; so must a plain `*_KEY`, which may be a column to sort by.
    """
    if not may_hold_assignment(name):
        return False
    if _REFERENCE.search(value) or _PATH.search(value) or any(letter.isspace() for letter in value):
        return False
    if _PASSWORD_NAME.search(name):
        return len(value) >= MIN_PASSWORD
    if _FULL_NAME.search(name):
        return looks_drawn(value) or any(len(run) >= 20 for run in _RUN.findall(value))
    return _KEY_NAME.search(name) is not None and not _ORDINARY_KEY.search(name) and looks_drawn(value)


def looks_drawn(value: str) -> bool:
    """Whether a text of at least 16 characters looks drawn by lot: letters, digits and cases change too often for words."""
    if len(value) < MIN_SECRET:
        return False
    if _UUID.match(value):
        return True
    runs = _RUN.findall(value)
    letters = sum(len(run) for run in runs)
    changes = sum(len(_CHANGE.findall(run)) for run in runs)
    return any(len(run) >= 12 for run in runs) and changes >= 0.25 * letters


def may_be_secret(text: str) -> bool:
    """Whether a message should rather not repeat `text`. Hides far more than a file is refused for."""
    runs = _WIDE_RUN.findall(text)
    return (
        any(not run.isalpha() and not run.isdigit() and any(c.isdigit() for c in run) for run in runs)
        or looks_drawn(text)
        or has_credential(text)
    )


def has_credential(text: str) -> bool:
    """Whether a credential of a known shape stands anywhere in `text`."""
    return next(credentials_in(text), None) is not None


def hides_value(name: str) -> bool:
    """Whether what stands under a field of this name should never be repeated in a message."""
    return name in _HIDDEN_FIELDS or _HIDING_NAME.search(name) is not None
