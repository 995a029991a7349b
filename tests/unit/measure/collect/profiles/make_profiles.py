"""Makes the profiles beside this file. Needs jax, which the tests do not: `uv run --with jax make_profiles.py`.

`cpu` is what jax.profiler writes for a few steps on a CPU. `tpu` and `gpu` are written by hand in XProf's own format:
two cores of a TPU v5e with a program that does 100 GFLOP on 0.5 GB in 1.5 ms of each step of 2 ms, and the allocations
of a GPU.
"""

import shutil
import tempfile
from pathlib import Path

import jax
from jax.profiler import ProfileData, ProfileOptions, StepTraceAnnotation, trace

HERE = Path(__file__).parent
MILLISECOND = 1_000_000_000
"""In picoseconds."""


def main() -> None:
    """Write all three."""
    write_cpu(HERE / "cpu.xplane.pb")
    write("tpu", "".join(map(tpu_core, (0, 1))) + 'planes { id: 9 name: "/host:CPU" } hostnames: "tpu-host"')
    write("gpu", gpu_allocations() + 'hostnames: "gpu-host"')


def write(name: str, text: str) -> None:
    """One profile."""
    (HERE / f"{name}.xplane.pb").write_bytes(ProfileData.text_proto_to_serialized_xspace(text))


def write_cpu(path: Path) -> None:
    """A real one: products of matrices."""
    multiply = jax.jit(lambda left, right: (left @ right).sum())
    ones = jax.numpy.ones((256, 256))
    multiply(ones, ones).block_until_ready()
    options = ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        with trace(folder, profiler_options=options):
            for step in range(5):
                with StepTraceAnnotation("train", step_num=step):
                    multiply(ones, ones).block_until_ready()
        (written,) = Path(folder).rglob("*.xplane.pb")
        shutil.copy(written, path)


def event(metadata: int, start: float, length: float, stats: str = "") -> str:
    """An event, in milliseconds."""
    times = f"offset_ps: {int(start * MILLISECOND)} duration_ps: {int(length * MILLISECOND)}"
    return f"events {{ metadata_id: {metadata} {times} {stats} }}\n"


def names(of: str, **numbers: int) -> str:
    """What the numbers of events or values mean."""
    return "".join(f'{of} {{ key: {n} value {{ id: {n} name: "{name}" }} }}\n' for name, n in numbers.items())


def tpu_core(core: int) -> str:
    """Four steps of 2 ms, in each a program of 1.8 ms with an operation of 1.5 ms."""
    steps = "".join(event(10 + step, 2 * step, 2) for step in range(4))
    programs = "".join(event(1, 2 * step, 1.8) for step in range(4))
    operations = "".join(event(2, 2 * step, 1.5) for step in range(4))
    known = {
        "hlo_category": 1, "flops": 2, "bytes_accessed": 3, "device_type_string": 4, "peak_teraflops_per_second": 5,
        "peak_hbm_bw_gigabytes_per_second": 6, "program_id": 7, "symbol_id": 8,
    }  # fmt: skip
    return f"""planes {{
        id: {core} name: "/device:TPU:{core}"
        lines {{ id: 1 name: "Steps" timestamp_ns: 1000 {steps} }}
        lines {{ id: 2 name: "XLA Modules" timestamp_ns: 1000 {programs} }}
        lines {{ id: 3 name: "XLA Ops" timestamp_ns: 1000 {operations} }}
        {"".join(f'event_metadata {{ key: {10 + n} value {{ id: {10 + n} name: "{n}" }} }}' for n in range(4))}
        event_metadata {{ key: 1 value {{ id: 1 name: "jit_train_step(1)" }} }}
        event_metadata {{ key: 2 value {{ id: 2 name: "%fusion.1 = f32[] fusion()" display_name: "fusion.1"
            stats {{ metadata_id: 1 str_value: "convolution fusion" }}
            stats {{ metadata_id: 2 uint64_value: 100000000000 }} stats {{ metadata_id: 3 uint64_value: 500000000 }}
            stats {{ metadata_id: 7 uint64_value: 1 }} stats {{ metadata_id: 8 uint64_value: 1 }} }} }}
        {names("stat_metadata", **known)}
        stats {{ metadata_id: 4 str_value: "TPU v5 lite" }}
        stats {{ metadata_id: 5 double_value: 197 }} stats {{ metadata_id: 6 double_value: 819 }} }}
    """


def gpu_allocations() -> str:
    """400 MiB more than 100 MiB, and then less again."""
    known = {
        "allocator_name": 1, "requested_bytes": 2, "bytes_allocated": 3, "bytes_available": 4, "peak_bytes_in_use": 5,
        "fragmentation": 6, "allocation_bytes": 7, "addr": 8, "tf_op": 9,
    }  # fmt: skip

    def change(index: int, kind: int, size: int, held: int, peak: int) -> str:
        values = {2: size, 3: held, 4: 1024 - held, 5: peak, 7: size}
        stats = "".join(f"stats {{ metadata_id: {n} int64_value: {value << 20} }}" for n, value in values.items())
        named = f'stats {{ metadata_id: 1 str_value: "GPU_0_bfc" }} stats {{ metadata_id: 9 str_value: "op{index}" }}'
        place = f"stats {{ metadata_id: 6 double_value: 0 }} stats {{ metadata_id: 8 uint64_value: {index} }}"
        return event(kind, index, 0.1, stats + named + place)

    changes = change(1, 1, 100, 100, 100) + change(2, 1, 400, 500, 500) + change(3, 2, 400, 100, 500)
    return f"""planes {{
        id: 1 name: "/host:CPU" lines {{ id: 1 name: "main" timestamp_ns: 1000 {changes} }}
        {names("event_metadata", MemoryAllocation=1, MemoryDeallocation=2)} {names("stat_metadata", **known)} }}
    """


if __name__ == "__main__":
    main()
