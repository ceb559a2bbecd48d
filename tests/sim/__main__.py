"""`python -m tests.sim SEED [SEED…]`: play histories; `FIRST-LAST` plays a range of them."""

import sys
import time

from tests.sim.history import judged

if __name__ == "__main__":
    began, played = time.monotonic(), 0
    for word in sys.argv[1:]:
        first, _, last = word.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            found = judged(seed)
            played += 1
            if found:
                print(found, flush=True)
    print(f"{played} histories, {played / (time.monotonic() - began):.2f} a second")
