#!/usr/bin/env python3
"""Time onnxruntime-webgpu's com.microsoft GroupQueryAttention on Torchlight's shapes.

usage: onnxruntime_webgpu.py --preset llama-1b [--device NAME] [--json FILE]
ONNX Runtime's profiler stamps every dispatch on the GPU. A time here is the sum of a run's dispatches without its copy
of the new tokens into the cache: kernels one by one, not amortised. README.md says what that means."""
from __future__ import annotations

import argparse
import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measurement
from measurement import Results, Shape, percentile

INSTALL = "pip install onnxruntime-webgpu onnx numpy  # in an environment without any other onnxruntime"
try:
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto, helper
except ImportError as error:
    measurement.stop(f"{error}: {INSTALL}")

PROVIDER = "WebGpuExecutionProvider"
CACHE_COPY = "CopyKVCache"
MOST_SETS = 320
WARM_RUNS = 20
NUMPY = {"f16": np.float16, "f32": np.float32}
ERROR_BOUND = {"f16": 2e-2, "f32": 1e-3}
CACHES = ("key_cache", "value_cache")


@dataclass
class Session:
    """One attention step as a model of one node; the caches are updated in place."""

    shape: Shape
    ort_session: ort.InferenceSession

    @classmethod
    def new(cls, shape: Shape, options: dict[str, str], folder: Path) -> Session:
        node = helper.make_node(
            "GroupQueryAttention", ["query", "key", "value", *CACHES, "last_position", "context_len"],
            ["output", *(f"new_{name}" for name in CACHES)], domain="com.microsoft",
            num_heads=shape.q_heads, kv_num_heads=shape.kv_heads)
        sizes = sizes_of(shape)
        inputs = [value_info(shape.kv, name, size) for name, size in sizes.items()]
        inputs += [helper.make_tensor_value_info(name, TensorProto.INT32, [1])
                   for name in ("last_position", "context_len")]
        outputs = [value_info(shape.kv, "output", sizes["query"])]
        outputs += [value_info(shape.kv, f"new_{name}", sizes[name]) for name in CACHES]
        profiled = ort.SessionOptions()
        profiled.enable_profiling = True
        profiled.profile_file_prefix = str(folder / "profile")
        return cls(shape, open_session(model(node, inputs, outputs), options, profiled))

    def bind(self, tensors: dict[str, ort.OrtValue]) -> ort.IOBinding:
        binding = self.ort_session.io_binding()
        for name in sizes_of(self.shape):
            binding.bind_ortvalue_input(name, tensors[name])
        # The operator wants the position of the last key, which is one less than the number of keys.
        binding.bind_cpu_input("last_position", np.array([self.shape.context_len - 1], np.int32))
        binding.bind_cpu_input("context_len", np.array([self.shape.context_len], np.int32))
        for name in CACHES:  # the same buffers again: else every run copies the whole cache
            binding.bind_ortvalue_output(f"new_{name}", tensors[name])
        binding.bind_ortvalue_output("output", tensors["output"])
        return binding


class Uploader:
    """Brings arrays to the GPU. The package cannot allocate there from Python, but outputs may stay there."""

    def __init__(self, kv: str, options: dict[str, str]) -> None:
        node = helper.make_node("Neg", ["array"], ["negated"])  # an Identity would be optimised away
        free = [value_info(kv, name, ["n"]) for name in ("array", "negated")]
        self.flat = open_session(model(node, free[:1], free[1:]), options, ort.SessionOptions())
        shaper = helper.make_node("Reshape", ["array", "size"], ["shaped"])
        self.shaped = open_session(model(shaper, [value_info(kv, "array", ["n"]),
                                                  helper.make_tensor_value_info("size", TensorProto.INT64, ["r"])],
                                         [value_info(kv, "shaped", None)]), options, ort.SessionOptions())

    def __call__(self, array: np.ndarray) -> ort.OrtValue:
        flat = self.flat.io_binding()
        flat.bind_cpu_input("array", -array.reshape(-1))
        flat.bind_output("negated", "webgpu")
        self.flat.run_with_iobinding(flat)
        shaped = self.shaped.io_binding()
        shaped.bind_ortvalue_input("array", flat.get_outputs()[0])
        shaped.bind_cpu_input("size", np.array(array.shape, np.int64))
        shaped.bind_output("shaped", "webgpu")
        self.shaped.run_with_iobinding(shaped)
        return shaped.get_outputs()[0]


def sizes_of(shape: Shape) -> dict[str, list[int]]:
    """The inputs in memory order: new tokens as [1, tokens, heads * dim], caches as [1, heads, rows, dim]."""
    new, cache = [1, shape.new_tokens], [1, shape.kv_heads, shape.context_len, shape.head_dim]
    kv_width = shape.kv_heads * shape.head_dim
    return {"query": [*new, shape.q_heads * shape.head_dim], "key": [*new, kv_width], "value": [*new, kv_width],
            **{name: cache for name in CACHES}}


def value_info(kv: str, name: str, size: list[Any] | None) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT16 if kv == "f16" else TensorProto.FLOAT, size)


def model(node: Any, inputs: list[Any], outputs: list[Any]) -> bytes:
    graph = helper.make_graph([node], "peer", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    built = helper.make_model(graph, opset_imports=opsets)
    built.ir_version = 8  # the newest that every ONNX Runtime with this provider reads
    return built.SerializeToString()


def open_session(serialized: bytes, options: dict[str, str], settings: ort.SessionOptions) -> ort.InferenceSession:
    """Without the package's silent fall-back to the CPU, which would be timed instead of the GPU."""
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return ort.InferenceSession(serialized, settings, providers=[(PROVIDER, options)], enable_fallback=0)


def reference(shape: Shape, arrays: dict[str, np.ndarray], queries: np.ndarray) -> np.ndarray:
    """The given queries' outputs in f64, [queries, heads * dim]; the step's own keys are the last of the cache."""
    def cache(name: str, new: str) -> np.ndarray:
        rows = arrays[name][0].astype(np.float64)
        own = arrays[new][0].reshape(shape.new_tokens, shape.kv_heads, shape.head_dim)
        rows[:, shape.context_len - shape.new_tokens:] = own.transpose(1, 0, 2)
        return rows

    keys, values = cache("key_cache", "key"), cache("value_cache", "value")
    q = arrays["query"][0, queries].astype(np.float64)
    q = q.reshape(len(queries), shape.kv_heads, shape.group, shape.head_dim)
    scores = np.einsum("skgd,ktd->kgst", q, keys) / math.sqrt(shape.head_dim)
    seen = np.arange(shape.context_len) <= queries[:, None] + (shape.context_len - shape.new_tokens)
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("kgst,ktd->skgd", weights, values).reshape(len(queries), -1)


def error_of(shape: Shape, session: Session, tensors: dict[str, ort.OrtValue], arrays: dict[str, np.ndarray]) -> float:
    binding = session.bind(tensors)
    binding.bind_output("output")  # to host memory
    session.ort_session.run_with_iobinding(binding)
    queries = np.unique([0, shape.new_tokens // 2, shape.new_tokens - 1])
    wanted = reference(shape, arrays, queries)
    got = binding.get_outputs()[-1].numpy()[0, queries].astype(np.float64)
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def run_times(profile: Path, runs: int) -> tuple[list[float], list[float], list[str]]:
    """Times of each run in µs without and with the cache copy, and the names of its kernels.

    The GPU's events have the category Api and names like node&GroupQueryAttention&FlashAttention."""
    events = [(entry["name"].rsplit("&", 1)[-1], entry["dur"]) for entry in json.loads(profile.read_text())
              if entry.get("cat") == "Api" and "&GroupQueryAttention&" in entry["name"]]
    if not events:
        raise RuntimeError("the profile holds no GPU times: this device has no timestamp queries")
    if len(events) % runs:
        raise RuntimeError(f"{len(events)} dispatches do not divide into {runs} runs")
    each = len(events) // runs
    chunks = [events[start:start + each] for start in range(0, len(events), each)]
    kernels = [sum(us for name, us in chunk if name != CACHE_COPY) for chunk in chunks]
    return kernels, [sum(us for _, us in chunk) for chunk in chunks], [name for name, _ in chunks[0]]


def benchmark(shape: Shape, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    options = dict(args.provider_option)
    session, upload = Session.new(shape, options, folder), Uploader(shape.kv, options)
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(size, np.float32).astype(NUMPY[shape.kv])
              for name, size in sizes_of(shape).items()}
    shared = {name: upload(arrays[name]) for name in ("query", "key", "value")}
    shared["output"] = upload(np.zeros_like(arrays["query"]))
    sets = [{**shared, **{name: upload(np.roll(arrays[name], i)) for name in CACHES}}
            for i in range(shape.sets(MOST_SETS))]
    distance = error_of(shape, session, sets[0], arrays)
    if not distance < ERROR_BOUND[shape.kv]:
        raise RuntimeError(f"wrong result, relative error {distance:.1e}")
    bindings = [session.bind(tensors) for tensors in sets]
    timed = max(args.repeats, len(sets))
    for i in range(WARM_RUNS + timed):
        session.ort_session.run_with_iobinding(bindings[i % len(bindings)])
    runs = 1 + WARM_RUNS + timed
    kernels, with_copy, names = run_times(Path(session.ort_session.end_profiling()), runs)
    kernels, with_copy = kernels[-timed:], with_copy[-timed:]
    times = {"amortised_us_p50": percentile(kernels, 50), "amortised_us_p90": percentile(kernels, 90),
             "with_cache_copy_us_p50": percentile(with_copy, 50), "timing": "profile", "kernels": names,
             "repeats": timed, "sets": len(sets), "relative_error": distance}
    return measurement.row("ort", "kernels", shape, times)


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"wants KEY=VALUE, got {text!r}")
    return key, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    measurement.add_arguments(parser)
    parser.add_argument("--device", default="unnamed GPU", metavar="NAME",
                        help="what to call the GPU in the results: the package does not say which one it took")
    parser.add_argument("--provider-option", type=key_value, action="append", metavar="KEY=VALUE",
                        default=[("powerPreference", "high-performance")], help="for the WebGPU provider; repeatable")
    args = parser.parse_args()
    shapes = measurement.shapes_from(parser, args)
    if PROVIDER not in ort.get_available_providers():
        measurement.stop(f"this onnxruntime {ort.__version__} has no WebGPU provider: {INSTALL}")
    results = Results("onnxruntime_webgpu", args.device, {"onnxruntime": ort.__version__},
                      {"timing": "sum of the GPU times of a run's dispatches, in whole us each"})
    for shape in shapes:
        with tempfile.TemporaryDirectory() as folder:
            try:
                results.rows.append(benchmark(shape, args, Path(folder)))
            except Exception as error:  # ONNX Runtime's errors share no narrower class
                results.refuse("ort", shape, str(error).strip().splitlines()[0])
    print(f"onnxruntime {ort.__version__}, WebGPU, {results.device}")
    measurement.finish(results, args)


if __name__ == "__main__":
    main()
