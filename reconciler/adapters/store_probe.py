"""Whether an object store keeps the promises that leases stand on, found out by asking it.

Decides what a store must show before anything relies on it: create once, replace only what was read, never replace what
is gone, read what was written. Which store, and when to ask (at every start), is for whoever wires it. A store that
takes If-Match or If-None-Match and ignores it gives a lock to everybody who asks (ceph/s3-tests#583,
gaul/undocumented-s3-apis#4).

What it cannot show: that of two writers at the same instant only one wins.
"""

from reconciler.ports import Conflict, ObjectStore, Refused

_TODO = "use an object store that honours conditional writes, without a cache or a header filter on the way"
_NEVER_GIVEN = '"00000000000000000000000000000000"'


class Unfit(Refused):
    """The store has answered, and breaks a promise: nothing may rely on it. (Any other Refused is about the asking.)"""


def probe(store: ObjectStore, token: str) -> None:
    """Ask the store on the key `probe/<token>.json`, which must be new, and remove that again.

    Raises Unfit, naming each promise that the store breaks, another Refused where it may not be asked, or Transient where it
    did not answer (then ask again with another token: the first object may exist).
    """
    key = f"probe/{token}.json"
    try:
        created = store.put(key, _body(1), expect=None)
    except Conflict:
        raise Unfit(
            f"the object store says that `{key}` exists already; ask again with a new token, and where that ends the "
            f"same way {_TODO}"
        ) from None
    try:
        faults = _faults(store, key, created)
    finally:
        store.delete(key)
    if faults:
        raise Unfit(f"the object store cannot hold leases: {'; '.join(faults)}; {_TODO}")


def _faults(store: ObjectStore, key: str, created: str) -> list[str]:
    faults = _misread(store, key, _body(1), created)
    if _writes(store, key, None):
        faults.append(f"it ignores `If-None-Match: *` (`{key}` was created twice)")
    if _writes(store, key, _NEVER_GIVEN):
        faults.append(f"it ignores `If-Match` (`{key}` was replaced under an ETag that it never had)")
    read = store.etag(key) or created
    try:
        replaced = store.put(key, _body(2), expect=read)
    except Conflict:
        return [*faults, f"it refuses a write under the ETag that it gave itself ({read})"]
    faults += _misread(store, key, _body(2), replaced)
    if replaced == read:
        faults.append(f"it gives other bytes the same ETag ({read})")
    elif _writes(store, key, read):
        faults.append(f"it ignores `If-Match` with an ETag of before (`{key}` was replaced after another had done so)")
    store.delete(key)
    if _writes(store, key, replaced):
        faults.append(f"it ignores `If-Match` where there is no object (`{key}` came back after it was removed)")
    return faults


def _body(step: int) -> bytes:
    return b'{"step": %d}' % step


def _writes(store: ObjectStore, key: str, expect: str | None) -> bool:
    """Whether a write that must be refused is done."""
    try:
        store.put(key, _body(0), expect=expect)
    except Conflict:
        return False
    return True


def _misread(store: ObjectStore, key: str, body: bytes, etag: str) -> list[str]:
    """What is wrong with reading right after a write."""
    stored = store.get(key)
    if stored is None or stored.body != body:
        return [f"a read does not see the write before it (`{key}`)"]
    seen = {stored.etag, store.etag(key)}
    if seen != {etag}:
        return [f"the ETags of one version differ: {etag} when written, {sorted(map(str, seen))} when read"]
    return []
