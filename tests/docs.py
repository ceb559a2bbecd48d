"""Writes the documents that are made from the code. `make docs` runs it; a test fails when they have drifted."""

from pathlib import Path

from reconciler.model.attempt import ENDED, HOLDS_GPUS, MAY_RUN, RENDERED, TABLE, Event, Outcome, State
from reconciler.model.reasons import Why, code_of

DOCS = Path(__file__).resolve().parents[1] / "docs"


def states() -> str:
    """docs/states.md: the life of an attempt, from the table in model/attempt.py."""
    events = list(Event)
    lines = [
        "# The life of an attempt",
        "",
        "Made from the table in `reconciler/model/attempt.py` by `make docs`; do not edit.",
        "An empty cell cannot happen: the code raises `Illegal`, which is a bug and never the user's fault.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> Proposed",
        "    [*] --> Placed",
        *(f"    {old.value} --> {new.value}: {event.value}" for (old, event), new in TABLE.items()),
        *(f"    {state.value} --> [*]" for state in State if state in ENDED),
        "```",
        "",
        "| state | " + " | ".join(event.value for event in events) + " | granted | holds GPUs | manifest on the branch |",
        "| --- |" + " --- |" * (len(events) + 3),
    ]
    for state in State:
        cells = [TABLE[state, event].value if (state, event) in TABLE else "" for event in events]
        marks = ["yes" if state in group else "" for group in (MAY_RUN, HOLDS_GPUS, RENDERED)]
        lines.append(f"| **{state.value}** | " + " | ".join(cells + marks) + " |")
    lines += ["", "Outcomes of an attempt that was stopped: " + ", ".join(f"`{outcome.value}`" for outcome in Outcome) + "."]
    return "\n".join(lines) + "\n"


def reasons() -> str:
    """docs/reasons.md: every reason code, with its sentence."""
    lines = [
        "# Reasons",
        "",
        "Every refusal, wait and end carries one of these codes and the numbers that go into its sentence.",
        "Made from `reconciler/model/reasons.py` by `make docs`; do not edit.",
        "",
        "| code | what it says |",
        "| --- | --- |",
    ]
    lines += [f"| `{code_of(why)}` | {why.value.replace('{', '‹').replace('}', '›')} |" for why in Why]
    return "\n".join(lines) + "\n"


GENERATED = {"states.md": states, "reasons.md": reasons}


if __name__ == "__main__":
    for name, made in GENERATED.items():
        (DOCS / name).write_text(made(), encoding="utf-8")
