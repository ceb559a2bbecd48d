"""GPU model names, as labels, price lists and people write them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.gpu import GpuModel, parse_model, satisfies

MEANS: dict[str, tuple[str, int | None, str | None]] = {
    "NVIDIA-A100-SXM4-40GB": ("a100", 40, None),
    "NVIDIA-A100-SXM4-80GB": ("a100", 80, None),
    "NVIDIA-A100-PCIE-40GB": ("a100", 40, None),
    "A100-80G": ("a100", 80, None),
    "a100-80gb": ("a100", 80, None),
    "A100 80 GB": ("a100-80-gb", None, None),  # two words are no size: better no match than a wrong one
    "A100_80GiB": ("a100", 80, None),
    "a100": ("a100", None, None),
    "  H100  ": ("h100", None, None),
    "NVIDIA-A10": ("a10", None, None),
    "NVIDIA-A10G": ("a10g", None, None),
    "NVIDIA-L4": ("l4", None, None),
    "NVIDIA-L40": ("l40", None, None),
    "NVIDIA-L40S": ("l40s", None, None),
    "NVIDIA-H100-80GB-HBM3": ("h100", 80, None),
    "H100_NVLINK_80GB": ("h100", 80, None),
    "NVIDIA-H100-NVL": ("h100", None, None),
    "NVIDIA H100 PCIe": ("h100", None, None),
    "NVIDIA-H200": ("h200", None, None),
    "NVIDIA-GH200-480GB": ("gh200", 480, None),
    "NVIDIA-B200": ("b200", None, None),
    "Tesla-V100-SXM2-16GB": ("v100", 16, None),
    "Tesla T4": ("t4", None, None),
    "NVIDIA-GeForce-RTX-4090": ("rtx-4090", None, None),
    "NVIDIA-RTX-6000-Ada-Generation": ("rtx-6000-ada", None, None),
    "NVIDIA-RTX-A6000": ("rtx-a6000", None, None),
    "AMD_Instinct_MI300X_OAM": ("mi300x", None, None),
    "MI210": ("mi210", None, None),
    "80GB": ("80gb", None, None),  # a size alone is no size of anything
    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb": ("a100", 80, "1g.10gb"),
    "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb": ("a100", 40, "3g.20gb"),
    "mig-1g.10gb": ("", None, "1g.10gb"),
}


@pytest.mark.parametrize("text", MEANS)
def test_what_a_name_means(text: str) -> None:
    assert parse_model(text) == GpuModel(*MEANS[text])


OFFERED = {
    "a40": "NVIDIA-A100-SXM4-40GB",
    "a80": "NVIDIA-A100-SXM4-80GB",
    "a10": "NVIDIA-A10",
    "a10g": "NVIDIA-A10G",
    "l4": "NVIDIA-L4",
    "l40": "NVIDIA-L40",
    "l40s": "NVIDIA-L40S",
    "h1": "NVIDIA-H100-80GB-HBM3",
    "h2": "H100_NVLINK_80GB",
    "hx": "NVIDIA-H100-PCIe",
    "h200": "NVIDIA-H200",
    "gh200": "NVIDIA-GH200-480GB",
    "slice": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb",
    "slice-as-reported": "A100-80GB.3g.40gb",
    "share-as-reported": "H100-80GB.shared",
}
TAKES: dict[str, set[str]] = {
    "A100-80GB": {"a80"},
    "A100-80G": {"a80"},
    "NVIDIA-A100-SXM4-80GB": {"a80"},
    "a100": {"a40", "a80"},
    "A100-40GB": {"a40"},
    "A10": {"a10"},
    "A10G": {"a10g"},
    "A1": set(),
    "L4": {"l4"},
    "L40": {"l40"},
    "L40S": {"l40s"},
    "H100": {"h1", "h2", "hx"},
    "H100-80GB": {"h1", "h2"},
    "H200": {"h200"},
    "GH200": {"gh200"},
    "A100-MIG-3g.40gb": {"slice"},
    "A100-80GB-MIG-3g.40gb": {"slice"},
    "A100-40GB-MIG-3g.40gb": set(),
    "MIG-3g.40gb": set(),
    "B999": set(),
}


@pytest.mark.parametrize("wanted", TAKES)
def test_which_cards_a_request_takes(wanted: str) -> None:
    assert {name for name, offered in OFFERED.items() if satisfies(offered, wanted)} == TAKES[wanted]


chips = st.from_regex(r"[A-Z]{1,3}[0-9]{1,4}[A-Z]?", fullmatch=True).filter(lambda chip: parse_model(chip).chip == chip.lower())
sizes = st.integers(1, 999)


@settings(deadline=None, derandomize=True)
@given(chips, st.one_of(st.none(), sizes))
def test_the_one_form_means_the_same_again(chip: str, size: int | None) -> None:
    model = parse_model(chip if size is None else f"NVIDIA-{chip}-SXM4-{size}GB")
    assert model == GpuModel(chip.lower(), size, None)
    assert parse_model(str(model)) == model
    assert satisfies(str(model), str(model))


@settings(deadline=None, derandomize=True)
@given(chips, sizes, chips, sizes)
def test_a_request_takes_its_own_chip_and_size_alone(chip: str, size: int, other: str, its_size: int) -> None:
    assert satisfies(f"NVIDIA-{chip}-{size}GB", other) == (chip == other)
    assert satisfies(f"{chip}-{size}GB", f"{other.lower()}_{its_size}g") == ((chip, size) == (other, its_size))
    assert not satisfies(chip, f"{chip}-{size}GB"), "a card of unknown size is not taken for one of that size"


@settings(deadline=None, derandomize=True)
@given(chips, sizes, st.integers(1, 7), st.integers(1, 99))
def test_a_slice_is_never_a_whole_card(chip: str, size: int, parts: int, part_size: int) -> None:
    label = f"NVIDIA-{chip}-SXM4-{size}GB-MIG-{parts}g.{part_size}gb"
    for spelled in (label, str(parse_model(label)), f"{chip}-{size}GB.shared"):
        assert not satisfies(spelled, chip)
        assert not satisfies(spelled, f"{chip}-{size}GB")
        assert not satisfies(spelled, f"{chip}-{part_size}GB")


@settings(deadline=None, derandomize=True)
@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ._/-]{0,62}", fullmatch=True))
def test_any_name_that_a_spec_takes_is_understood_somehow(text: str) -> None:
    model = parse_model(text)
    assert model == parse_model(text.upper()) == parse_model(f" {text} ")
    assert satisfies(text, text)
