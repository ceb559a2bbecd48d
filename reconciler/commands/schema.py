"""`reconciler schema`: the published JSON Schema of each kind of file, for editors and other programs."""

from shlex import quote

from reconciler.adapters.schemas import KINDS, as_text, published
from reconciler.commands import screen
from reconciler.commands.ends import BadInput


def schema(kind: str | None) -> None:
    """Print the schema of a kind, or the kinds there are."""
    if kind is None:
        screen.say("\n".join(KINDS))
    elif kind in KINDS:
        screen.say(as_text(published(kind)).rstrip("\n"))
    else:
        raise BadInput(f"there is no schema of {quote(kind)}", f"kinds are {', '.join(KINDS)}")
