"""Writes the golden trees anew."""

import shutil

from tests.golden import cases, tree_of


def main() -> None:
    """Each case's `out/`, from nothing."""
    for case in cases():
        tree = tree_of(case)
        shutil.rmtree(case / "out", ignore_errors=True)
        for name, body in tree.items():
            path = case / "out" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        print(f"{case.name}: {len(tree)} files")


main()
