"""What an exporter's lines say of a node's cards."""

from dataclasses import dataclass

import pytest

from reconciler.adapters.kube.meters import meter_of
from reconciler.ports import GpuMeter

MIB = 1 << 20


def line(name: str, card: str, value: str, more: str = "") -> str:
    labels = f'gpu="0",UUID="{card}",pci_bus_id="x",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="n1"{more}'
    return f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n"


def card(name: str, used: str = "1000", free: str = "80000", busy: str = "50", more: str = "") -> str:
    return line("FB_USED", name, used, more) + line("FB_FREE", name, free, more) + line("GPU_UTIL", name, busy, more)


@dataclass(frozen=True)
class Case:
    text: str
    want: GpuMeter | None


HEAD = "# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).\n# TYPE DCGM_FI_DEV_FB_USED gauge\n"
ONE = GpuMeter(1000 * MIB, 80000 * MIB, 0.5)
CASES = {
    "one card": Case(HEAD + card("GPU-a"), ONE),
    "two cards": Case(card("GPU-a") + card("GPU-b", "3000", "78000", "100"), GpuMeter(4000 * MIB, 158000 * MIB, 0.75)),
    "a card that pods share": Case(card("GPU-a", more=',pod="p"') + card("GPU-a", more=',pod="q"'), ONE),
    "a sliced card": Case(card("GPU-a") + card("GPU-a", "10", "20", more=',GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"'), ONE),
    "an empty slice's name is a whole card": Case(card("GPU-a", more=',GPU_I_ID=""'), ONE),
    "no utilisation": Case(line("FB_USED", "a", "1") + line("FB_FREE", "a", "2"), GpuMeter(MIB, 2 * MIB, None)),
    "no memory": Case(line("GPU_UTIL", "a", "1"), None),
    "memory of some cards only": Case(card("a") + line("FB_USED", "b", "1"), None),
    "numbers that are none": Case(card("a", "NaN") + card("b", free="-1"), None),
    "nothing": Case("", None),
    "something else": Case("<html>busy</html>", None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_meter(case: Case) -> None:
    assert meter_of(case.text) == case.want
