"""An object store in memory that fails when it is told to, before or after it did what was asked."""

from collections.abc import Iterator

from reconciler.ports import Conflict, Listed, Stored, Transient


class FailingStore:
    """`ports.ObjectStore`. `down`: nothing is answered; `lose_answers`: writes are done, and their answers lost."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.down = False
        self.lose_answers = False
        self.writes = 0

    def _answer(self) -> None:
        if self.down:
            raise Transient("the store does not answer")

    def get(self, key: str) -> Stored | None:
        self._answer()
        return self.objects.get(key)

    def etag(self, key: str) -> str | None:
        self._answer()
        found = self.objects.get(key)
        return found.etag if found else None

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        self._answer()
        if self.etag(key) != expect:
            raise Conflict(f"{key} is not what was read")
        self.writes += 1
        self.objects[key] = Stored(body, f"e{self.writes}")
        if self.lose_answers:
            raise Transient("the answer was lost")
        return self.objects[key].etag

    def list(self, prefix: str) -> Iterator[Listed]:
        self._answer()
        yield from (Listed(key, len(self.objects[key].body)) for key in sorted(self.objects) if key.startswith(prefix))

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.objects[source].body, expect=self.etag(target))

    def delete(self, key: str) -> None:
        self._answer()
        self.objects.pop(key, None)
