"""Deletion of objects and of their dependents: the objects whose `ownerReferences` name them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from local_kube.errors import ApiError
from local_kube.formats import now
from local_kube.kinds import STORED_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local_kube.json_files import Document
    from local_kube.kinds import Kind
    from local_kube.pods.kubelet import Kubelet
    from local_kube.state.store import Objects, Store

FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that is deleted after its dependents."""
POLICIES = ("Background", "Foreground", "Orphan")
KINDS = {kind.kind: kind for kind in STORED_KINDS}
log = logging.getLogger(__name__)


class GarbageCollector:
    """Deletes objects, at once or when their finalizers are gone, and objects whose owners are gone."""

    def __init__(self, store: Store, objects: Objects, kubelet: Kubelet) -> None:
        self._store = store
        self._objects = objects
        self._kubelet = kubelet
        self.removed: Callable[[Document], None] = lambda _: None
        """Called with each object after its removal."""

    def delete(self, kind: Kind, document: Document, policy: str) -> None:
        """Delete an object. The policy decides whether its dependents follow, go first, or stay."""
        if policy not in POLICIES:
            raise ApiError(422, f'DeleteOptions: propagationPolicy: Unsupported value: "{policy}"')
        metadata = document["metadata"]
        finalizers = list(metadata.get("finalizers") or [])
        if policy == "Orphan":
            self._orphan_dependents(metadata["uid"])
        elif policy == "Foreground" and FOREGROUND not in finalizers and self._dependents(metadata["uid"]):
            finalizers.append(FOREGROUND)
        if not finalizers:
            self._remove(kind, document)
            self.collect()
        elif finalizers != metadata.get("finalizers") or "deletionTimestamp" not in metadata:
            deletion = {"finalizers": finalizers, "deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}
            self._save(kind, {**document, "metadata": {**metadata, **deletion}})
            self.collect()

    def collect_or_postpone(self) -> None:
        """Collect, and leave what fails now, for example on a full disk, to the next call."""
        try:
            self.collect()
        except (OSError, ApiError) as error:
            log.warning("garbage collection failed and will be retried: %s", error)

    def collect(self) -> None:
        """Continue deletions that wait for finalizers, and delete objects that have lost every owner."""
        for kind in STORED_KINDS:
            for document in self._objects.all(kind.singular):
                if "deletionTimestamp" in document["metadata"]:
                    self._continue_deletion(kind, document)
        uids = {str(document["metadata"]["uid"]) for document in self._all()}
        for document in list(self._all()):
            references = document["metadata"].get("ownerReferences") or []
            if references and all(_is_dangling(reference, uids) for reference in references):
                self._delete_dependent(document)

    def _continue_deletion(self, kind: Kind, document: Document) -> None:
        metadata = document["metadata"]
        finalizers = list(metadata.get("finalizers") or [])
        if FOREGROUND in finalizers:
            for dependent in self._dependents(metadata["uid"]):
                self._delete_dependent(dependent)
            if not self._dependents(metadata["uid"]):
                finalizers.remove(FOREGROUND)
                self._save(kind, {**document, "metadata": {**metadata, "finalizers": finalizers}})
        if not finalizers:
            self._remove(kind, document)

    def _delete_dependent(self, document: Document) -> None:
        if document["kind"] == "Pod":
            self._kubelet.delete(document, int(document["spec"]["terminationGracePeriodSeconds"]))
        elif "deletionTimestamp" not in document["metadata"]:
            self.delete(KINDS[document["kind"]], document, "Background")

    def _orphan_dependents(self, uid: str) -> None:
        for document in self._dependents(uid):
            rest = [reference for reference in document["metadata"]["ownerReferences"] if reference.get("uid") != uid]
            document["metadata"]["ownerReferences"] = rest
            if document["kind"] == "Pod":
                self._store.update(document)
            else:
                self._save(KINDS[document["kind"]], document)

    def _dependents(self, uid: str) -> list[Document]:
        return [
            document
            for document in self._all()
            if any(reference.get("uid") == uid for reference in document["metadata"].get("ownerReferences") or [])
        ]

    def _all(self) -> Iterator[Document]:
        yield from self._store.pods.values()
        for kind in STORED_KINDS:
            yield from self._objects.all(kind.singular)

    def _save(self, kind: Kind, document: Document) -> None:
        self._store.publish(kind.plural, "MODIFIED", document)
        self._objects.save(document)

    def _remove(self, kind: Kind, document: Document) -> None:
        self._objects.remove(document)
        self._store.publish(kind.plural, "DELETED", document)
        self.removed(document)


def _is_dangling(reference: Document, uids: set[str]) -> bool:
    """Return whether an owner is of a kind that this cluster stores, and does not exist."""
    return (reference.get("kind") in KINDS or reference.get("kind") == "Pod") and reference.get("uid") not in uids
