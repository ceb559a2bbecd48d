"""How each job of jobs-repo-example ends, for the demo that runs them and for the table in the example's README.

Decides nothing that is decided elsewhere: regions are those that data, rights, models and prices leave for a job's last attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reconciler.model.names import JobKey
from reconciler.model.reasons import Why
from reconciler.model.record import Phase

KNOWN_IMAGES = ("registry.example.com/ml/*",)
"""Patterns of the images that a region of the demo can pull, beside its own staging image."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How a job ends. `phase` None: its file is refused, so there is no record of it."""

    phase: Phase | None
    why: Why
    attempts: int = 1
    regions: frozenset[str] = frozenset()
    """Where its last attempt may have run; empty for a job that never ran."""


EU, US, AP = "eu-west", "us-east", "ap-south"


def _ran(phase: Phase, why: Why, *regions: str, attempts: int = 1) -> Expected:
    return Expected(phase, why, attempts, frozenset(regions))


EXPECTED: Mapping[JobKey, Expected] = MappingProxyType(
    {
        JobKey("language", "all-reduce"): _ran(Phase.SUCCEEDED, Why.SUCCEEDED, EU, US),
        JobKey("language", "cheap-eval"): _ran(Phase.SUCCEEDED, Why.SUCCEEDED, AP),
        JobKey("language", "corpus-pretrain"): _ran(Phase.SUCCEEDED, Why.SUCCEEDED, EU),
        JobKey("language", "line-fit"): _ran(Phase.SUCCEEDED, Why.SUCCEEDED, EU, US, AP, attempts=2),
        JobKey("language", "web-finetune"): _ran(Phase.SUCCEEDED, Why.SUCCEEDED, US),
        JobKey("vision", "always-fails"): _ran(Phase.FAILED, Why.RETRIES_EXHAUSTED, EU, US, attempts=2),
        JobKey("vision", "early-stop"): _ran(Phase.SUCCEEDED, Why.EXITED, EU, US),
        JobKey("vision", "norway"): Expected(None, Why.SPEC_BROKEN, attempts=0),
        JobKey("vision", "thumbnails"): _ran(Phase.SUCCEEDED, Why.SUCCEEDED, EU, US),
        JobKey("vision", "too-wide"): Expected(Phase.IMPOSSIBLE, Why.NODE_TOO_SMALL, attempts=0),
        JobKey("vision", "typo-image"): _ran(Phase.FAILED, Why.IMAGE_PULL, EU, US),
    }
)
"""Every job of the example."""
