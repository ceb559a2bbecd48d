"""GPU model names, as nodes, vendors and people spell them, brought to one form.

A model is (chip, VRAM in GB or none): `NVIDIA-A100-SXM4-80GB`, `A100-80G` and `a100-80gb` are all (a100, 80). A request
without a size takes every size of that very chip: `A100` takes A100-40GB and A100-80GB, never an A10; `L4` never an L40S.
Faults of others that this rules out: skypilot-org/skypilot#9818, #2959, #4404, #6701.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_NOISE = frozenset(
    [
        "nvidia",
        "amd",
        "intel",
        "tesla",
        "geforce",
        "quadro",
        "instinct",
        "radeon",
        "sxm",
        "sxm2",
        "sxm3",
        "sxm4",
        "sxm5",
        "sxm6",
        "pcie",
        "pcie4",
        "pcie5",
        "pci",
        "nvl",
        "nvlink",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
        "oam",
        "gpu",
        "generation",
        "server",
        "edition",
        "mig",
        "shared",
        "workstation",
    ]
)
_MEMORY = re.compile(r"^([0-9]{1,4})(g|gb|gib)$")
_MIG = re.compile(r"(?:^|[-_ ])mig[-_ ]?([0-9]+g\.[0-9]+gb)", re.IGNORECASE)


class GpuModel(NamedTuple):
    """A chip and, where known, its VRAM in GB; `slice` is a MIG profile such as `1g.10gb` (never taken for a whole card)."""

    chip: str
    vram_gb: int | None
    slice: str | None

    def __str__(self) -> str:
        size = f"-{self.vram_gb}GB" if self.vram_gb else ""
        return f"{self.chip.upper()}{size}" + (f".{self.slice}" if self.slice else "")


@lru_cache(maxsize=4096)
def parse_model(text: str) -> GpuModel:
    """The model that a label, a price list or a job means by `text`."""
    mig = _MIG.search(text)
    rest = _MIG.sub(" ", text) if mig else text
    words = [word for word in re.split(r"[-_ /]+", rest.lower().strip()) if word and word not in _NOISE]
    vram = None
    chips: list[str] = []
    for word in words:
        size = _MEMORY.match(word)
        if size and chips:
            vram = int(size[1])
        else:
            chips.append(word)
    return GpuModel("-".join(chips), vram, mig[1].lower() if mig else None)


@lru_cache(maxsize=65536)
def satisfies(offered: str, wanted: str) -> bool:
    """Whether a card spelled `offered` is one that a request for `wanted` takes."""
    have, want = parse_model(offered), parse_model(wanted)
    if have.chip != want.chip or have.slice != want.slice:
        return False
    return want.vram_gb is None or have.vram_gb == want.vram_gb
