"""What must hold of Git and the store after every cycle of a hub, whatever happened in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pygit2

from reconciler.hub.ledger import written
from reconciler.model.attempt import ENDED
from reconciler.model.grants import Grants
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.ports import ObjectStore


RULES
