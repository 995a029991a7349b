"""Stragglers: which worker, stage or kind of work slows a training job down, from a trace of what each worker did.

The format of a trace is that of ByteDance's StragglerAnalysis: a Parquet file with a row for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.store import storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray


COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc")
MAX_BYTES = 2 << 30
MAX_ROWS = 50_000_000
MAX_OPERATIONS = 20_000
"""Different operations of one step."""
MAX_CELLS = 200_000_000
"""Steps times operations: the table from which complete steps are chosen."""
LATEST = 1e12
"""Times and durations beyond it are invalid."""


class Operation(NamedTuple):
    """An operation that every data-parallel rank performs once in each step."""

    kind: str
    """Such as `forward-compute`."""
    number: int
    """Its number among those of its kind, stage and step."""
    stage: int


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The complete steps of a trace.

    Tables have an axis for operations, one for steps and one for data-parallel ranks.
    """

    operations: tuple[Operation, ...]
    steps: NDArray[np.int64]
    rank: NDArray[np.int64]
    """The worker of each stage and data-parallel rank."""
    chunk: NDArray[np.int64]
    """The part of the stage's model that each operation belongs to, or -1."""
    global_chunk: NDArray[np.int64]
    """The same, as a number within the whole model."""
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    left_out: int
    """Steps that are incomplete, or have other operations than most."""

    @property
    def stages(self) -> int:
        return len(self.rank)

    @property
    def data_ranks(self) -> int:
        return int(self.rank.shape[1])


def read_trace(path: str) -> Trace:
    """Raises UnreadableInputError if the file is no trace, or has no complete step."""
    import pyarrow as pa

    data = storage.named_file(path).read(MAX_BYTES)
    try:
        return _trace(_columns(data))
    except UnreadableInputError as error:
        raise UnreadableInputError(f"{path}: {error}") from error
    except (pa.ArrowException, ValueError, OSError) as error:
        raise UnreadableInputError(f"{path}: is not a Parquet file with a trace of operations: {error}") from error


def _columns(data: bytes) -> dict[str, Any]:
    import pyarrow.parquet as pq

    missing = set(COLUMNS) - set(pq.read_schema(BytesIO(data)).names)
    if missing:
        raise UnreadableInputError(f"is no trace of operations: it has no column {', '.join(sorted(missing))}")
    file = pq.ParquetFile(BytesIO(data), read_dictionary=["optype"])
    if file.metadata.num_rows > MAX_ROWS:
        raise UnreadableInputError(f"has {file.metadata.num_rows:,} operations, more than {MAX_ROWS:,}")
    table = file.read(columns=list(COLUMNS))
    return {name: _column(table[name], name) for name in COLUMNS}


def _column(column: pa.ChunkedArray, name: str) -> Any:
    import pyarrow as pa

    if column.null_count:
        raise pa.ArrowInvalid(f"column {name} has {column.null_count:,} empty cells")
    if name == "optype":
        texts = column.cast(pa.string()).dictionary_encode().combine_chunks()
        names = [str(text) for text in texts.dictionary.to_pylist()]
        place = np.argsort(np.argsort(names))
        return sorted(names), place[texts.indices.to_numpy(zero_copy_only=False)]
    wanted = pa.float64() if name in {"start_ts", "duration"} else pa.int64()
    try:
        return column.cast(wanted).to_numpy()
    except pa.ArrowException as error:
        raise pa.ArrowInvalid(f"column {name}: {error}") from error


def _trace(columns: dict[str, Any]) -> Trace:
    kinds, kind = columns["optype"]
    dp, stage = (_numbered(columns[name], name) for name in ("dp_rank", "stage"))
    start, duration = columns["start_ts"], columns["duration"]
    valid = (np.abs(start) <= LATEST) & (duration >= 0) & (duration <= LATEST)
    if not valid.all():
        raise UnreadableInputError(f"{int((~valid).sum()):,} operations have no valid time or duration")
    keys, first, which = np.unique(
        np.stack([stage, kind, columns["seq_id"]]), axis=1, return_index=True, return_inverse=True
    )
    which = which.reshape(-1)
    if keys.shape[1] > MAX_OPERATIONS:
        raise UnreadableInputError(f"a step has more than {MAX_OPERATIONS:,} different operations")
    steps, of_step = np.unique(columns["step"], return_inverse=True)
    data_ranks = int(dp.max()) + 1
    kept, present = _complete((of_step.reshape(-1), which, dp), (len(steps), keys.shape[1], data_ranks))
    place = np.cumsum(kept) - 1
    column = np.cumsum(present) - 1
    rows = kept[of_step]
    at = (column[which[rows]], place[of_step[rows]], dp[rows])
    shape = (int(present.sum()), int(kept.sum()), data_ranks)
    began, ended = np.empty(shape), np.empty(shape)
    began[at], ended[at] = start[rows], (start + duration)[rows]
    origin = began.min(axis=(0, 2))[None, :, None]
    ranks = np.full((int(stage.max()) + 1, data_ranks), -1, np.int64)
    ranks[stage, dp] = columns["rank"]
    named = keys[:, present]
    return Trace(
        operations=tuple(Operation(kinds[k], int(number), int(of)) for of, k, number in named.T),
        steps=steps[kept],
        rank=ranks,
        chunk=columns["mc"][first[present]],
        global_chunk=columns["gmc"][first[present]],
        start=began - origin,
        end=ended - origin,
        left_out=int((~kept).sum()),
    )


def _numbered(column: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Raises UnreadableInputError unless they are 0, 1, 2, ... without a gap."""
    values = np.unique(column)
    if not len(values):
        raise UnreadableInputError("the trace has no operation")
    if values[0] != 0 or values[-1] != len(values) - 1:
        raise UnreadableInputError(
            f"{name} has {len(values):,} numbers from {values[0]} to {values[-1]}: they should be 0, 1, 2, and so on"
        )
    return column


def _complete(
    cells: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]], shape: tuple[int, int, int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the steps that have the operations of most steps, each once for every rank; and these operations."""
    (step, operation, dp), (steps, operations, ranks) = cells, shape
    if steps * operations > MAX_CELLS or ranks > MAX_ROWS:
        raise UnreadableInputError(f"the trace has {steps:,} steps of {operations:,} operations, too many")
    cell = step * operations + operation
    count = np.bincount(cell, minlength=steps * operations)
    distinct = np.bincount(np.unique(np.stack([cell, dp]), axis=1)[0], minlength=steps * operations)
    table = count.reshape(steps, operations)
    whole = (((table == 0) | (table == ranks)) & (count == distinct).reshape(steps, operations)).all(axis=1)
    if not whole.any():
        raise UnreadableInputError(f"no step has every operation of all {ranks} data-parallel ranks")
    shapes, of_shape, often = np.unique(table[whole] > 0, axis=0, return_inverse=True, return_counts=True)
    usual = int(often.argmax())
    whole[np.flatnonzero(whole)[of_shape.reshape(-1) != usual]] = False
    return whole, shapes[usual]


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
    """The first operations of the groups that wait for all data-parallel ranks."""
    sequence: tuple[tuple[int, ...], ...]
    """Groups and single computations, each after all that it waits for."""


def order_of(trace: Trace) -> Order:
    """Raises UnreadableInputError if the operations are not those of such a step."""
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
        found = [at for kind in kinds for at in self._found.get((stage, kind), ())]
        return sorted(found, key=lambda at: (self._start[at], self._trace.operations[at].number, at))

    def _chain(self, operations: Iterable[int], after: Iterable[int] = ()) -> None:
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
        if first < 2:
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
                across.add(at)
                groups.append((at,))
        groups += [embeddings] if embeddings else []
        if clips:
            across.add(clips[0])
            groups.append(clips)
        return tuple(groups), frozenset(across)


def _sequence(after: tuple[tuple[int, ...], ...], groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Sort groups and single operations by what they wait for. Two that wait for each other are an error."""
    grouped = {at for group in groups for at in group}
    units = [*groups, *((at,) for at in range(len(after)) if at not in grouped)]
    unit_of = {at: unit for unit in units for at in unit}
    needs = {unit: [unit_of[before] for at in unit for before in after[at]] for unit in units}
    try:
        return tuple(TopologicalSorter(needs).static_order())
    except CycleError:
        raise UnreadableInputError("operations of the trace wait for each other in a circle") from None


def own_durations(trace: Trace, order: Order) -> NDArray[np.float64]:
    """Return how long each operation took by itself: a transfer or collective, since the last of its members began."""
    own = trace.end - trace.start
    for group in order.groups:
        at = list(group)
        began = trace.start[at].max(axis=0)
        if at[0] in order.across_ranks:
            began = began.max(axis=-1, keepdims=True)
        took = trace.end[at] - began
        took[took <= -0.01] = 0.0
        own[at] = took
    return own


def step_seconds(trace: Trace, order: Order, durations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how long each step takes if operations take these durations, and start as soon as they can."""
    ends: dict[int, NDArray[np.float64]] = {}
    whole = np.zeros(durations.shape[1])
    nothing = np.zeros(durations.shape[1:])
    for unit in order.sequence:
        began = nothing
        for at in unit:
            for before in order.after[at]:
                began = np.maximum(began, ends[before])
        if unit[0] in order.across_ranks:
            began = began.max(axis=-1, keepdims=True)
        for at in unit:
            ends[at] = began + durations[at]
            if trace.operations[at].kind == OPTIMIZER:
                whole = np.maximum(whole, ends[at].max(axis=-1))
    return whole


MOST = 0.5
"""A suspect explains the slowdown if fixing it removes at least this share."""
ROUNDING = 1e-9
"""A smaller slowdown, as a share of the time, is none."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The slowdown of a job, and its causes."""

    steps: int
    workers: int
    recorded_seconds: float
    """The mean step of the trace."""
    replayed_seconds: float
    """The mean step of the replay with the recorded durations."""
    ideal_seconds: float
    by_data_rank: Mapping[int, float]
    """The slowdown if only the operations of this rank keep their recorded durations."""
    by_stage: Mapping[int, float]
    by_type: Mapping[str, float]
    slowest: tuple[int, ...]
    """The workers that contribute most."""
    slowest_workers: float
    """The share of the slowdown that disappears if they are fixed (M_W)."""
    last_stage: float
    """The share that disappears if the last stage is fixed (M_S). Above 1, other stages then wait less than usual."""
    correlation: float | None
    """Of forward and backward times of the same microbatches."""

    @property
    def slowdown(self) -> float:
        return self.replayed_seconds / self.ideal_seconds if self.ideal_seconds > 0 else 1.0

    @property
    def causes(self) -> tuple[str, ...]:
        if self.slowdown < 1.03:
            return ()
        named = []
        if self.slowest_workers >= MOST:
            named.append(f"slow workers: {', '.join(f'rank {rank}' for rank in self.slowest)}")
        if self.last_stage >= MOST and len(self.by_stage) > 1:
            named.append("a long last stage")
        if self.correlation is not None and self.correlation >= 0.9:
            named.append("lengths of sequences: forward and backward times of a microbatch vary together")
        return tuple(named)

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "steps": self.steps,
            "workers": self.workers,
            "recorded_step_seconds": self.recorded_seconds,
            "replayed_step_seconds": self.replayed_seconds,
            "ideal_step_seconds": self.ideal_seconds,
            "slowdown": self.slowdown,
            "slowdown_by_data_rank": {str(key): value for key, value in self.by_data_rank.items()},
            "slowdown_by_stage": {str(key): value for key, value in self.by_stage.items()},
            "slowdown_by_type": dict(self.by_type),
            "slowest_workers": list(self.slowest),
            "share_of_slowest_workers": self.slowest_workers,
            "share_of_last_stage": self.last_stage,
            "forward_backward_correlation": self.correlation,
            "causes": list(self.causes),
        }


def explain(trace: Trace) -> Explanation:
    order = order_of(trace)
    own = own_durations(trace, order)
    stage_of, kind_of = (np.array([getattr(one, name) for one in trace.operations]) for name in ("stage", "kind"))
    ideal = np.empty_like(own)
    for kind in set(kind_of.tolist()):
        of_kind = own[kind_of == kind]
        ideal[kind_of == kind] = of_kind.mean() if kind in COMPUTING else np.median(of_kind)

    def mean(durations: NDArray[np.float64]) -> float:
        return float(step_seconds(trace, order, durations).mean())

    own_seconds, ideal_seconds = mean(own), mean(ideal)
    lost = own_seconds - ideal_seconds

    def slowdown(durations: NDArray[np.float64]) -> float:
        return mean(durations) / ideal_seconds if ideal_seconds > 0 else 1.0

    def slowdown_by(operations: NDArray[np.bool_]) -> float:
        durations = ideal.copy()
        durations[operations] = own[operations]
        return slowdown(durations)

    def share_without(*indexes: Any) -> float:
        durations = own.copy()
        for index in indexes:
            durations[index] = ideal[index]
        return (own_seconds - mean(durations)) / lost if lost > ROUNDING * ideal_seconds else 0.0

    # one ideal rank stands for all others
    each = [np.stack([own[..., rank], ideal[..., rank]], axis=-1) for rank in range(trace.data_ranks)]
    by_rank = {rank: slowdown(durations) for rank, durations in enumerate(each)}
    by_stage = {stage: slowdown_by(stage_of == stage) for stage in range(trace.stages)}
    # both sides of a transfer are one type
    types = np.array([f"{kind.partition('-')[0]}-transfer" if kind in PEERS else kind for kind in kind_of.tolist()])
    # the 3 % of the workers that contribute most: both their rank and their stage do
    workers = [(stage, rank) for stage in by_stage for rank in by_rank if trace.rank[stage, rank] >= 0]
    workers.sort(key=lambda one: (-min(by_stage[one[0]], by_rank[one[1]]), int(trace.rank[one])))
    worst = workers[: -int(-len(workers) * 0.03 // 1)]
    return Explanation(
        steps=len(trace.steps),
        workers=trace.rank.size,
        recorded_seconds=float(trace.end.max(axis=(0, 2)).mean()),
        replayed_seconds=own_seconds,
        ideal_seconds=ideal_seconds,
        by_data_rank=by_rank,
        by_stage=by_stage,
        by_type={kind: slowdown_by(types == kind) for kind in sorted(set(types.tolist()))},
        slowest=tuple(int(trace.rank[one]) for one in worst),
        slowest_workers=share_without(*((stage_of == stage, slice(None), rank) for stage, rank in worst)),
        last_stage=share_without(stage_of == trace.stages - 1),
        correlation=_correlation(trace),
    )


def _correlation(trace: Trace) -> float | None:
    """Return how forward and backward times of the same microbatches vary together on a worker.

    What a worker, or a part of the model, always takes longer for is left out.
    """
    took = trace.end - trace.start
    keys = [(one.stage, int(trace.chunk[at]), one.number) for at, one in enumerate(trace.operations)]
    pairs = {keys[at]: at for at, one in enumerate(trace.operations) if one.kind == BACKWARD}
    by_chunk: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at, one in enumerate(trace.operations):
        if one.kind == FORWARD and keys[at] in pairs:
            by_chunk.setdefault(keys[at][:2], []).append((at, pairs[keys[at]]))
    found = []
    for each in by_chunk.values():
        sides = [took[list(side)] for side in zip(*each, strict=True)]
        forward, backward = (one - one.mean(axis=(0, 1)) for one in sides)
        vary = all(one.std() > ROUNDING * side.mean() for one, side in zip((forward, backward), sides, strict=True))
        if forward.size >= 8 and vary:
            found.append(float(np.corrcoef(forward.ravel(), backward.ravel())[0, 1]))
    return float(np.median(found)) if found else None
