"""Kubernetes quantities as whole numbers: bytes, and thousandths of a core. Rounded up, as the API server does."""

from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache

_FACTORS = {
    "": Decimal(1), "m": Decimal("0.001"), "u": Decimal("0.000001"), "n": Decimal("1e-9"),
    "k": Decimal(10**3), "M": Decimal(10**6),
    "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_MOST_DIGITS = 30
"""Beyond is no machine; `1e999999999` would take all memory to write out."""


@lru_cache(maxsize=65536)
def _amount(text: str) -> Decimal:
    stripped = text.strip()
    suffix_at = len(stripped)
    while suffix_at and not (stripped[suffix_at - 1].isdigit() or stripped[suffix_at - 1] == "."):
        suffix_at -= 1
    suffix = stripped[suffix_at:]
    if suffix not in _FACTORS:
        raise InvalidOperation(f"`{text}` is no quantity")
    amount = Decimal(stripped[:suffix_at]) * _FACTORS[suffix]  # exponents too, such as 1e3
    if not amount.is_finite() or amount.adjusted() > _MOST_DIGITS:
        raise InvalidOperation(f"`{text}` is no quantity")
    return amount


@lru_cache(maxsize=65536)
def whole(text: str | int) -> int:
    """A quantity in its own unit (bytes, cards, pods), rounded up. Raises ArithmeticError for what is none."""
    return int(_amount(str(text)).to_integral_value(ROUND_CEILING))


@lru_cache(maxsize=65536)
def milli(text: str | int) -> int:
    """A quantity in thousandths (of a core), rounded up. Raises ArithmeticError for what is none."""
    return int((_amount(str(text)) * 1000).to_integral_value(ROUND_CEILING))


def as_usd(price: float | None) -> str:
    """A price for people, in US dollars; one that nobody knows is said to be unknown."""
    if price is None:
        return "unknown"
    return "below 0.01 USD" if 0 < price < 0.005 else f"{price:.2f} USD"


def as_bytes(number: int) -> str:
    """Bytes for people, in the largest binary unit that keeps three digits."""
    size = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError


def as_length(seconds: float) -> str:
    """A span of time in its two largest units; nothing is said of parts of a second."""
    left = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts) or "0 s"
