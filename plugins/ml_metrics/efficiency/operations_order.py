"""What each operation of a step waits for: the order of a pipeline-parallel, data-parallel training step.

All data-parallel ranks and steps have the same order, so it is read from the first of each. On each stage,
computation is one stream, each kind of transfer between stages another, and data-parallel collectives one more. An
operation waits for the one before it in its stream, and for those of other streams that its data come from. A transfer
ends when both sides have started and the data have passed; a collective, when every member has started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.errors import UnreadableInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.efficiency.operations import Trace

FORWARD, BACKWARD = "forward-compute", "backward-compute"
GATHER, SCATTER, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
LAYERNORM, EMBEDDING, CLIP = "layernorm-grads-all-reduce", "embedding-grads-all-reduce", "optimizer-clip-main-grad"
OPTIMIZER, COLLECTOR = "optimizer", "gc"
COMPUTING = frozenset({FORWARD, BACKWARD, OPTIMIZER, COLLECTOR})
PEERS = {
    "forward-send": ("forward-recv", 1),
    "forward-recv": ("forward-send", -1),
    "backward-send": ("backward-recv", -1),
    "backward-recv": ("backward-send", 1),
}
"""The other side of a transfer, and the direction in which its stage and chunk lie."""
ALL_RANKS = frozenset({GATHER, SCATTER, SEPARATE, CLIP})
"""The collectives of all data-parallel ranks."""
KNOWN = frozenset({*COMPUTING, *PEERS, *ALL_RANKS, LAYERNORM, EMBEDDING})
CLOCKS = 5e-5
"""Seconds by which times of two streams of one worker may differ although they mean the same moment."""


@dataclass(frozen=True, slots=True)
class Order:
    """The operations of a step by their positions in the trace, in an order in which they can be replayed."""

    after: tuple[tuple[int, ...], ...]
    """What each operation waits for."""
    groups: tuple[tuple[int, ...], ...]
    """Operations that end together: transfers and collectives. Every such operation is in one group."""
    across_ranks: frozenset[int]
    """The groups, by position, that wait for all data-parallel ranks."""
    sequence: tuple[tuple[int, ...], ...]
    """Groups and single computations, each after all that it waits for."""


def order_of(trace: Trace) -> Order:
    """Find the order. Raises UnreadableInputError if the operations are not those of such a step."""
    return _Finder(trace).order()


class _Finder:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._at = {operation: index for index, operation in enumerate(trace.operations)}
        unknown = {operation.kind for operation in trace.operations} - KNOWN
        if unknown:
            raise UnreadableInputError(f"the trace has operations of an unknown type: {', '.join(sorted(unknown)[:5])}")
        self._start, self._end = trace.start[:, 0, 0], trace.end[:, 0, 0]
        self._after: list[set[int]] = [set() for _ in trace.operations]
        self._partner: dict[int, tuple[str, int, int]] = {}
        self._found: dict[tuple[int, str], list[int]] = {}
        for operation, at in self._at.items():
            self._found.setdefault((operation.stage, operation.kind), []).append(at)

    def order(self) -> Order:
        overlapped = any(operation.kind == SEPARATE for operation in self._trace.operations)
        for stage in range(self._trace.stages):
            computing = self._of(stage, FORWARD, BACKWARD)
            if not computing or not self._of(stage, OPTIMIZER):
                raise UnreadableInputError(f"stage {stage} has no computation, or no {OPTIMIZER}")
            self._chain(computing)
            for kind in PEERS:
                self._transfers(stage, kind)
            self._first_backward(stage, computing)
            self._chain(self._of(stage, GATHER, SCATTER))
            self._gathers(stage)
            if overlapped:
                self._scatters(stage)
            self._finish(stage, computing, overlapped=overlapped)
        groups, across = self._groups()
        after = tuple(tuple(sorted(each)) for each in self._after)
        return Order(after, groups, across, _sequence(after, groups))

    def _of(self, stage: int, *kinds: str) -> list[int]:
        """Return the operations of a stage, in the order of their starts."""
        found = [at for kind in kinds for at in self._found.get((stage, kind), ())]
        return sorted(found, key=lambda at: (self._start[at], self._trace.operations[at].number, at))

    def _chain(self, operations: Iterable[int], after: Iterable[int] = ()) -> None:
        """Let each operation wait for the one before it."""
        previous = set(after)
        for at in operations:
            self._after[at] |= previous
            previous = {at}

    def _transfers(self, stage: int, kind: str) -> None:
        """Match each send or receive with its computation, and with the other side.

        Profilers also record transfers that did not take place: receives after the last computation has begun, sends
        before the first has ended, and those beyond the first or last chunk of the model.
        """
        transfers = self._of(stage, kind)
        self._chain(transfers)
        computing = self._of(stage, f"{kind.partition('-')[0]}-compute")
        receives = kind.endswith("recv")
        if receives:
            latest = max(self._start[at] for at in computing) + CLOCKS
            real = [at for at in transfers if self._start[at] <= latest]
        else:
            earliest = min(self._end[at] for at in computing) - CLOCKS
            real = [at for at in transfers if self._end[at] >= earliest]
        skipped = 1 if receives and len(real) + 1 == len(computing) else 0
        if real and len(computing) - len(real) not in {0, 1}:
            raise UnreadableInputError(f"stage {stage} has {len(real)} {kind} for {len(computing)} computations")
        numbered = sorted(computing, key=lambda at: self._trace.operations[at].number)
        peer, direction = PEERS[kind]
        chunks = 1 + int(self._trace.global_chunk.max())
        passed = 0
        for index, at in enumerate(real, start=skipped):
            computation = numbered[index]
            if receives:
                self._after[computation].add(at)
                if index:
                    self._after[at].add(numbered[index - 1])
            else:
                self._after[at].add(computation)
            if 0 <= int(self._trace.global_chunk[computation]) + direction < chunks:
                self._partner[at] = (peer, (stage + direction) % self._trace.stages, passed)
                passed += 1

    def _first_backward(self, stage: int, computing: list[int]) -> None:
        """Let the first transfers backward wait for the last forward computation but one before the first backward."""
        kinds = [self._trace.operations[at].kind for at in computing]
        first = kinds.index(BACKWARD) if BACKWARD in kinds else 0
        if first < 2:  # noqa: PLR2004  (no computation but one before it)
            return
        for kind in ("backward-recv", "backward-send"):
            for at in self._of(stage, kind)[:1]:
                self._after[at].add(computing[first - 2])

    def _gathers(self, stage: int) -> None:
        """Let the first forward computation of each chunk wait for the chunk's last parameters."""
        for chunk, gather in {int(self._trace.chunk[at]): at for at in self._of(stage, GATHER)}.items():
            forward = [at for at in self._of(stage, FORWARD) if self._trace.chunk[at] == chunk]
            if forward:
                self._after[forward[0]].add(gather)

    def _scatters(self, stage: int) -> None:
        """Let the first reduction of each chunk's gradients wait for the chunk's last backward computation."""
        done: set[int] = set()
        for scatter in self._of(stage, SCATTER):
            chunk = int(self._trace.chunk[scatter])
            backward = [at for at in self._of(stage, BACKWARD) if self._trace.chunk[at] == chunk]
            if chunk not in done and backward:
                self._after[scatter].add(max(backward, key=lambda at: self._end[at]))
            done.add(chunk)

    def _finish(self, stage: int, computing: list[int], *, overlapped: bool) -> None:
        """Chain what follows the last computation: collection of garbage, reductions, and the optimizer."""
        scatters = self._of(stage, SCATTER)
        last = max(computing, key=lambda at: self._end[at])
        collected = self._of(stage, COLLECTOR)
        self._chain(collected, [last])
        tail = self._of(stage, LAYERNORM) + self._of(stage, EMBEDDING)
        tail += self._of(stage, SEPARATE) if overlapped else scatters
        tail += self._of(stage, CLIP) + self._of(stage, OPTIMIZER)
        before = [*(collected[-1:] or [last]), *(scatters[-1:] if overlapped else [])]
        self._chain(tail, before)

    def _groups(self) -> tuple[tuple[tuple[int, ...], ...], frozenset[int]]:
        groups: list[tuple[int, ...]] = []
        across = set()
        clips = tuple(at for each, at in self._at.items() if each.kind == CLIP)
        embeddings = tuple(at for each, at in self._at.items() if each.kind == EMBEDDING)
        by_name = {
            (self._trace.operations[at].kind, self._trace.operations[at].stage, number): at
            for at, (_, _, number) in self._partner.items()
        }
        for each, at in self._at.items():
            if each.kind in PEERS:
                other = by_name.get(self._partner[at]) if at in self._partner else None
                if at in self._partner and other is None:
                    raise UnreadableInputError(f"{each.kind} {each.number} of stage {each.stage} has no other side")
                if other is None:
                    groups.append((at,))
                elif at < other:
                    groups.append((at, other))
            elif each.kind in ALL_RANKS - {CLIP}:
                across.add(len(groups))
                groups.append((at,))
        groups += [group for group in (embeddings,) if group]
        if clips:
            across.add(len(groups))
            groups.append(clips)
        return tuple(groups), frozenset(across)


def _sequence(after: tuple[tuple[int, ...], ...], groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Sort groups and single operations by what they wait for. Two that wait for each other are an error."""
    grouped = {at for group in groups for at in group}
    units = [*groups, *((at,) for at in range(len(after)) if at not in grouped)]
    unit_of = {at: index for index, unit in enumerate(units) for at in unit}
    needs = [{unit_of[before] for at in unit for before in after[at]} for unit in units]
    followers: list[list[int]] = [[] for _ in units]
    for index, before in enumerate(needs):
        for one in before:
            followers[one].append(index)
    left = [len(before) for before in needs]
    ready = [index for index, count in enumerate(left) if not count]
    for index in ready:
        for follower in followers[index]:
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    if len(ready) != len(units):
        raise UnreadableInputError("operations of the trace wait for each other in a circle")
    return tuple(units[index] for index in ready)
