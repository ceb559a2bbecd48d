"""`$(NAME)` in environment values, commands and arguments, replaced as Kubernetes does it; pure.

Rules: `$(NAME)` becomes the value of a known name and stays as it is for an unknown one; `$$` is one `$`; any other `$`
stays. Nothing is replaced twice. Source: k8s.io/kubernetes third_party/forked/golang/expansion.
"""

import re
from collections.abc import Mapping

_MARK = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expanded(text: str, values: Mapping[str, str]) -> str:
    """The text with its references replaced."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return values.get(name, match[0])

    return _MARK.sub(replacement, text)
