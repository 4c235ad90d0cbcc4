#!/usr/bin/env python3
"""Time PyTorch's scaled_dot_product_attention, each back end by itself, on Torchlight's shapes.

usage: pytorch_sdpa.py --preset llama-1b [--backends flash,cudnn] [--json FILE]
A CUDA graph of many calls back to back, each on K and V of its own, gives the time of a call without the cost of its
launch; the same calls without a graph give the column `events`. README.md explains the method and the columns."""
from __future__ import annotations

import argparse
import math
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import measurement
from measurement import ROTATED_BYTES, Results, Shape, percentile

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right
except ImportError as error:
    measurement.stop(f"PyTorch is missing ({error}): pip install torch")

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
LOWER_RIGHT = {"flash", "efficient"}  # these align a causal mask to the lower right; the others need it as a tensor
DTYPES = {"f16": torch.float16, "f32": torch.float32}
CALLS_US = 4000       # aim for a repeat: long against the two events and the launch of a graph
MOST_CALLS = 400
WARM_S = 0.02         # before every measurement, since building a graph leaves the GPU idle
ERROR_BOUND = {"f16": 1e-2, "f32": 5e-3}  # f32: wide enough for tf32, far below a misplaced mask

Call = Callable[[int], torch.Tensor]


@dataclass
class Probe:
    """A fixed kernel that shows whether the GPU's clocks have settled."""

    matrix: torch.Tensor
    product: torch.Tensor
    calls: int = 20

    @classmethod
    def new(cls) -> Probe:
        matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
        return cls(matrix, torch.empty_like(matrix))

    def time_us(self) -> float:
        return elapsed_us(lambda: [torch.mm(self.matrix, self.matrix, out=self.product) for _ in range(self.calls)],
                          self.calls)

    def settle(self, limit_s: float = 5.0) -> dict[str, float | bool]:
        """Runs until eight times in a row lie within 2 %, or `limit_s` is over."""
        start = time.monotonic()
        times: list[float] = []
        stable = False
        while not stable and time.monotonic() - start < limit_s:
            times = [*times, self.time_us()][-8:]
            stable = len(times) == 8 and max(times) < 1.02 * min(times)
        return {"us": percentile(times, 50), "stable": stable, "seconds": time.monotonic() - start}


def elapsed_us(run: Callable[[], object], calls: int) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


@dataclass
class Data:
    """Random tensors in Torchlight's layout, [rows, heads, dim]; set i has K and V of its own."""

    shape: Shape
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None

    @classmethod
    def new(cls, shape: Shape) -> Data:
        def random(*size: int) -> torch.Tensor:
            return torch.randn(*size, device="cuda", dtype=DTYPES[shape.kv])

        sets, rows = shape.sets(MOST_CALLS), shape.context_len
        queries = min(sets, math.ceil(ROTATED_BYTES / shape.q_bytes))
        mask = None
        if 1 < shape.new_tokens < rows:
            mask = torch.zeros(shape.new_tokens, rows, device="cuda", dtype=DTYPES[shape.kv])
            mask.masked_fill_(~visible(shape, torch.arange(shape.new_tokens, device="cuda")), -math.inf)
        return cls(shape, random(queries, shape.new_tokens, shape.q_heads, shape.head_dim),
                   random(sets, rows, shape.kv_heads, shape.head_dim),
                   random(sets, rows, shape.kv_heads, shape.head_dim), mask)

    def as_gqa(self, index: int) -> list[torch.Tensor]:
        """[1, heads, rows, dim], K and V with fewer heads than q."""
        sources = (self.q, self.k, self.v)
        return [tensor[index % len(tensor)].transpose(0, 1).unsqueeze(0) for tensor in sources]

    def as_view(self, index: int) -> list[torch.Tensor]:
        """[kv_heads, group, rows, dim], K and V expanded over the group with stride 0: nothing is copied."""
        shape = self.shape
        q = self.q[index % len(self.q)].view(shape.new_tokens, shape.kv_heads, shape.group, shape.head_dim)
        sources = (self.k[index % len(self.k)], self.v[index % len(self.v)])
        return [q.permute(1, 2, 0, 3), *(tensor.transpose(0, 1).unsqueeze(1).expand(-1, shape.group, -1, -1)
                                         for tensor in sources)]


def visible(shape: Shape, queries: torch.Tensor) -> torch.Tensor:
    keys = torch.arange(shape.context_len, device=queries.device)
    return keys <= queries[:, None] + (shape.context_len - shape.new_tokens)


def error_of(data: Data, output: torch.Tensor, how: str) -> float:
    """Relative L2 distance from f64 over the first, middle and last query of set 0: where a misplaced mask shows."""
    shape = data.shape
    queries = torch.tensor([0, shape.new_tokens // 2, shape.new_tokens - 1], device="cuda").unique()
    heads = (shape.kv_heads, shape.group)
    q = data.q[0][queries].view(len(queries), *heads, shape.head_dim).double()
    scores = torch.einsum("skgd,tkd->kgst", q, data.k[0].double()) / math.sqrt(shape.head_dim)
    weights = scores.masked_fill_(~visible(shape, queries), -math.inf).softmax(-1)
    wanted = torch.einsum("kgst,tkd->skgd", weights, data.v[0].double())
    got = output.permute(2, 0, 1, 3) if how.startswith("view") else output[0].transpose(0, 1).unflatten(1, heads)
    return float((got[queries].double() - wanted).norm() / wanted.norm())


def candidates(backend: str, data: Data) -> Iterator[tuple[str, Call]]:
    """The ways to call a back end, the one without a workaround first."""
    shape = data.shape
    keywords: dict[str, object] = {"is_causal": shape.new_tokens > 1}
    suffix = ""
    if data.mask is not None:
        keywords = {"attn_mask": causal_lower_right(shape.new_tokens, shape.context_len)}
        if backend not in LOWER_RIGHT:
            keywords, suffix = {"attn_mask": data.mask}, "+mask"
    grouped = shape.group > 1
    name = "gqa" if grouped else "mha"
    yield name + suffix, lambda i: F.scaled_dot_product_attention(*data.as_gqa(i), **keywords, enable_gqa=grouped)
    if grouped:
        yield "view" + suffix, lambda i: F.scaled_dot_product_attention(*data.as_view(i), **keywords)


@contextmanager
def reasons() -> Iterator[list[str]]:
    """Collects why PyTorch turned a call down: it says so in warnings, the exception only that nothing ran."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    for warning in caught:
        text = re.sub(r"\(Triggered internally.*", "", str(warning.message)).strip()
        if "not used because" not in text and "runtime disabled" not in text and text not in texts:
            texts.append(text)


def working_call(backend: str, data: Data, results: Results) -> tuple[str, Call, float] | None:
    """The first way that runs and is right, with its error."""
    refusals: dict[str, list[str]] = {}
    for how, call in candidates(backend, data):
        failure = None
        with reasons() as why:
            try:
                output = call(0)
                torch.cuda.synchronize()
            except RuntimeError as error:  # torch's out-of-memory and not-implemented errors are RuntimeErrors
                failure = str(error).strip().splitlines()[0]
        if failure is not None:
            refusals.setdefault("; ".join(why) or failure, []).append(how)
            continue
        distance = error_of(data, output, how)
        if distance < ERROR_BOUND[data.shape.kv]:
            return how, call, distance
        refusals.setdefault(f"wrong result, relative error {distance:.1e}", []).append(how)
    results.refuse(backend, data.shape, " | ".join(f"{', '.join(ways)}: {why}" for why, ways in refusals.items()))
    return None


def measure(call: Call, data: Data, repeats: int, flush: torch.Tensor) -> dict[str, object]:
    """Times in µs a call: `amortised` from graph replays, `events` from the same calls launched one by one."""
    def sequence(calls: int) -> None:
        for i in range(calls):
            call(i)

    def repeat(run: Callable[[], object], calls: int) -> list[float]:
        start = time.monotonic()
        while time.monotonic() - start < WARM_S:
            elapsed_us(run, calls)
        times = []
        for _ in range(repeats):
            flush.sum()  # few calls do not fill the L2 by themselves; reads leave nothing for it to write back later
            times.append(elapsed_us(run, calls))
        return times

    sequence(3)
    estimate = min(elapsed_us(lambda: sequence(3), 3) for _ in range(3))
    wanted = CALLS_US / estimate  # more where that lets every set be read once, and launches inflate the estimate
    calls = max(4, min(MOST_CALLS, math.ceil(max(wanted, min(len(data.k), 5 * wanted)))))
    events = repeat(lambda: sequence(calls), calls)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            sequence(calls)
        times, method, note = repeat(graph.replay, calls), "graph", None
    except RuntimeError as error:
        torch.cuda.synchronize()
        times, method, note = events, "events", str(error).strip().splitlines()[0]
    return {"amortised_us_p50": percentile(times, 50), "amortised_us_p90": percentile(times, 90),
            "events_us_p50": percentile(events, 50), "events_us_p90": percentile(events, 90),
            "timing": method, "graph_refused": note, "calls": calls, "repeats": repeats, "sets": len(data.k)}


def benchmark(shape: Shape, backends: list[str], results: Results, options: tuple[int, torch.Tensor]) -> None:
    try:
        data = Data.new(shape)
    except torch.cuda.OutOfMemoryError:
        for backend in backends:
            results.refuse(backend, shape, "not enough GPU memory for the inputs")
        return
    for backend in backends:
        with sdpa_kernel(BACKENDS[backend]):
            found = working_call(backend, data, results)
            if found is None:
                continue
            how, call, distance = found
            try:
                times = measure(call, data, *options)
            except torch.cuda.OutOfMemoryError:
                results.refuse(backend, shape, "not enough GPU memory")
                continue
        results.rows.append(measurement.row(backend, how, shape, {**times, "relative_error": distance}))
        if times["graph_refused"]:
            results.refuse(backend, shape, f"as a CUDA graph, so us is events: {times['graph_refused']}")


def backend_list(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown back end {unknown[0]!r}: choose from {', '.join(BACKENDS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    measurement.add_arguments(parser)
    parser.add_argument("--backends", type=backend_list, default=list(BACKENDS), metavar="NAME,...",
                        help=f"of {', '.join(BACKENDS)} (default: all)")
    args = parser.parse_args()
    shapes = measurement.shapes_from(parser, args)
    if not torch.cuda.is_available():
        measurement.stop(f"PyTorch {torch.__version__} sees no CUDA GPU")
    torch.manual_seed(0)
    probe = Probe.new()
    first = probe.settle()
    results = Results("pytorch_sdpa", torch.cuda.get_device_name(),
                      {"torch": torch.__version__, "cuda": str(torch.version.cuda),
                       "cudnn": str(torch.backends.cudnn.version())}, {})
    flush = torch.zeros(ROTATED_BYTES // 4, device="cuda")
    try:
        with torch.no_grad():
            for shape in shapes:
                benchmark(shape, args.backends, results, (args.repeats, flush))
                torch.cuda.empty_cache()
    except KeyboardInterrupt:
        print(f"interrupted at {shape}: what follows is not all")
    last = probe.settle()
    results.method = {"timing": "CUDA graph of back-to-back calls", "probe_before": first, "probe_after": last}
    print(f"PyTorch {torch.__version__}, cuDNN {results.versions['cudnn']}, {results.device}")
    settled = "stable" if first["stable"] else "NOT stable"
    print(f"probe, a 4096^3 f16 product: {first['us']:.1f} us before ({settled}), {last['us']:.1f} us after")
    measurement.finish(results, args)


if __name__ == "__main__":
    main()
