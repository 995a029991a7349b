"""What goes with what: an object that is deleted takes along those that name it as their owner."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from local_kube.kinds import KEPT
from local_kube.records import now
from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local_kube.kinds import Kind
    from local_kube.kubelet import Kubelet
    from local_kube.objects import Objects
    from local_kube.records import Document
    from local_kube.store import Store

FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that waits for its dependents to go first."""
POLICIES = ("Background", "Foreground", "Orphan")
log = logging.getLogger(__name__)
SERVED = {"Pod", *(kind.kind for kind in KEPT)}


class Garbage:
    """Deletes objects, at once or when their finalizers are gone, and what belonged to them."""

    def __init__(self, store: Store, objects: Objects, kubelet: Kubelet) -> None:
        self._store = store
        self._objects = objects
        self._kubelet = kubelet
        self.forgotten: Callable[[Document], None] = lambda _: None
        """Called with each object that is gone."""

    def delete(self, kind: Kind, document: Document, policy: str) -> None:
        """Order an object's end. Dependents go after it, before it, or stay, as the policy says."""
        if policy not in POLICIES:
            raise RefusalError(422, f'DeleteOptions: propagationPolicy: Unsupported value: "{policy}"')
        metadata = document["metadata"]
        finalizers = list(metadata.get("finalizers") or [])
        if policy == "Orphan":
            self._let_go(metadata["uid"])
        elif policy == "Foreground" and FOREGROUND not in finalizers and self._dependents(metadata["uid"]):
            finalizers.append(FOREGROUND)
        if not finalizers:
            self._forget(kind, document)
            self.sweep()
        elif finalizers != metadata.get("finalizers") or "deletionTimestamp" not in metadata:
            ending = {"finalizers": finalizers, "deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}
            self._keep(kind, {**document, "metadata": {**metadata, **ending}})
            self.sweep()

    def sweep_or_try_again(self) -> None:
        """Sweep, and leave what cannot be done now, for example on a full disk, to the next time."""
        try:
            self.sweep()
        except (OSError, RefusalError) as error:
            log.warning("what lost its owner cannot be deleted yet: %s", error)

    def sweep(self) -> None:
        """Delete whatever lost its last owner, and go on with deletions that wait for something."""
        for kind in KEPT:
            for document in self._objects.all(kind.one):
                if "deletionTimestamp" in document["metadata"]:
                    self._go_on(kind, document)
        owners = {str(document["metadata"]["uid"]) for document in self._everything()}
        for document in list(self._everything()):
            references = document["metadata"].get("ownerReferences") or []
            if references and all(_gone(reference, owners) for reference in references):
                self._remove(document)

    def _go_on(self, kind: Kind, document: Document) -> None:
        metadata = document["metadata"]
        finalizers = list(metadata.get("finalizers") or [])
        if FOREGROUND in finalizers:
            dependents = self._dependents(metadata["uid"])
            for dependent in dependents:
                self._remove(dependent)
            if not self._dependents(metadata["uid"]):
                finalizers.remove(FOREGROUND)
                self._keep(kind, {**document, "metadata": {**metadata, "finalizers": finalizers}})
        if not finalizers:
            self._forget(kind, document)

    def _remove(self, document: Document) -> None:
        """Delete a dependent, each in its own way."""
        if document["kind"] == "Pod":
            self._kubelet.delete(document, int(document["spec"]["terminationGracePeriodSeconds"]))
            return
        kind = next(kind for kind in KEPT if kind.kind == document["kind"])
        if "deletionTimestamp" not in document["metadata"]:
            self.delete(kind, document, "Background")

    def _let_go(self, uid: str) -> None:
        """Make dependents independent."""
        for document in self._dependents(uid):
            rest = [reference for reference in document["metadata"]["ownerReferences"] if reference.get("uid") != uid]
            document["metadata"]["ownerReferences"] = rest
            if document["kind"] == "Pod":
                self._store.changed(document)
            else:
                self._keep(next(kind for kind in KEPT if kind.kind == document["kind"]), document)

    def _dependents(self, uid: str) -> list[Document]:
        return [
            document
            for document in self._everything()
            if any(reference.get("uid") == uid for reference in document["metadata"].get("ownerReferences") or [])
        ]

    def _everything(self) -> Iterator[Document]:
        yield from self._store.pods.values()
        for kind in KEPT:
            yield from self._objects.all(kind.one)

    def _keep(self, kind: Kind, document: Document) -> None:
        self._store.note(kind.many, "MODIFIED", document)
        self._objects.keep(document)

    def _forget(self, kind: Kind, document: Document) -> None:
        self._objects.forget(document)
        self._store.note(kind.many, "DELETED", document)
        self.forgotten(document)


def _gone(reference: Document, owners: set[str]) -> bool:
    """Whether an owner is of a kind that is kept here, and is not here."""
    return reference.get("kind") in SERVED and reference.get("uid") not in owners
