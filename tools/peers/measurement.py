"""What the peers' benchmarks share: shapes, presets, options, the table and the files.

The fields of a row have the names that `torchlight bench sdpa --json` gives them: compare.py reads them all alike."""
from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

ROTATED_BYTES = 300_000_000  # K and V of a repeat: several times any L2, so that no call finds its own data there
ELEMENT_BYTES = {"f16": 2, "f32": 4}


@dataclass(frozen=True, order=True)
class Shape:
    """One attention step: `new_tokens` queries, the last of which sees all `context_len` keys."""

    q_heads: int
    kv_heads: int
    head_dim: int
    kv: str
    new_tokens: int
    context_len: int

    @property
    def group(self) -> int:
        return self.q_heads // self.kv_heads

    @property
    def kv_bytes(self) -> int:
        return 2 * self.context_len * self.kv_heads * self.head_dim * ELEMENT_BYTES[self.kv]

    @property
    def q_bytes(self) -> int:
        return self.new_tokens * self.q_heads * self.head_dim * ELEMENT_BYTES[self.kv]

    @property
    def visible_scores(self) -> int:
        """Pairs of a query and a key that it sees, in one head."""
        return self.new_tokens * (self.context_len - self.new_tokens) + self.new_tokens * (self.new_tokens + 1) // 2

    @property
    def flops(self) -> int:
        return 4 * self.head_dim * self.visible_scores * self.q_heads

    @property
    def phase(self) -> str:
        return "decode" if self.new_tokens == 1 else "prefill"

    @property
    def family(self) -> str:
        return f"h {self.q_heads} hk {self.kv_heads} d {self.head_dim}, {self.kv} KV, {self.phase}"

    def __str__(self) -> str:
        heads = f"h {self.q_heads} hk {self.kv_heads} d {self.head_dim}"
        return f"{heads} {self.kv}, s {self.new_tokens} over {self.context_len}"

    def bytes(self) -> int:
        """K, V, q and the output, each once."""
        return self.kv_bytes + 2 * self.q_bytes

    def sets(self, limit: int) -> int:
        """How many K/V pairs to rotate over, at least 2 and at most `limit`."""
        return max(2, min(limit, math.ceil(ROTATED_BYTES / self.kv_bytes)))


@dataclass
class Results:
    """Everything a benchmark writes."""

    tool: str
    device: str
    versions: dict[str, str]
    method: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, backend: str, shape: Shape, reason: str) -> None:
        self.refused.append({"backend": backend, **asdict(shape), "reason": " ".join(reason.split())})


PRESET_HEADS = {"llama-1b": (32, 8, 64), "llama-8b": (32, 8, 128), "qwen3": (16, 8, 128), "smollm2": (9, 3, 64)}
DECODE = [(1, 512), (1, 2048), (1, 8192), (1, 32768)]
PREFILL = [(512, 512), (2048, 2048), (4096, 4096)]
PARTIAL = (128, 4096)


def preset(name: str, dtype: str | None) -> list[Shape]:
    if name == "anchors":
        return anchors(dtype)
    heads = PRESET_HEADS[name]
    return [Shape(*heads, dtype or "f16", *step) for step in [*DECODE, *PREFILL, PARTIAL]]


def anchors(dtype: str | None) -> list[Shape]:
    """The shapes of the published table of peers, in its order."""
    shapes = []
    for kv in [dtype] if dtype else ["f16", "f32"]:
        for head_dim in (64, 128):
            short = [(128, 128), PARTIAL] if (kv, head_dim) == ("f16", 64) else []
            shapes += [Shape(32, 8, head_dim, kv, *step) for step in [*DECODE, *short, *PREFILL]]
    return shapes


def positive_list(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"wants positive integers separated by commas, got {text!r}")
    return numbers


def positive(text: str) -> int:
    numbers = positive_list(text)
    if len(numbers) != 1:
        raise argparse.ArgumentTypeError(f"wants one positive integer, got {text!r}")
    return numbers[0]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shapes = parser.add_argument_group("shapes", "a preset, or heads of your own with --seq and --context")
    shapes.add_argument("--preset", choices=[*PRESET_HEADS, "anchors"], help="heads of a model and its usual steps")
    shapes.add_argument("--heads", type=positive, metavar="H", help="query heads")
    shapes.add_argument("--kv-heads", type=positive, metavar="HK", help="KV heads; H is a multiple")
    shapes.add_argument("--head-dim", type=positive, metavar="D")
    shapes.add_argument("--seq", type=positive_list, metavar="S,...", help="new tokens; each with each context")
    shapes.add_argument("--context", type=positive_list, metavar="C,...", help="keys in all, the new ones included")
    shapes.add_argument("--dtype", choices=list(ELEMENT_BYTES), help="f16 unless said; anchors: both unless said")
    parser.add_argument("--repeats", type=positive, default=20, metavar="N", help="repeats per shape (default 20)")
    parser.add_argument("--json", type=output_path, metavar="FILE", help="write the rows for compare.py")
    parser.add_argument("--csv", type=output_path, metavar="FILE", help="write the rows as a table")


def output_path(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    return path


def shapes_from(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Shape]:
    """The shapes that the options ask for; ends the program where they contradict each other."""
    own_heads = [args.heads, args.kv_heads, args.head_dim]
    if args.preset and any(own_heads):
        parser.error("--preset sets the heads: leave out --heads, --kv-heads and --head-dim")
    if not args.preset and not all(own_heads):
        parser.error("give --preset, or all of --heads, --kv-heads and --head-dim")
    if bool(args.seq) != bool(args.context):
        parser.error("--seq and --context belong together")
    if args.preset == "anchors" and args.seq:
        parser.error("--preset anchors has shapes of its own: leave out --seq and --context")
    if args.preset and not args.seq:
        return preset(args.preset, args.dtype)
    if not args.seq:
        parser.error("give --seq and --context")
    heads = PRESET_HEADS[args.preset] if args.preset else own_heads
    if heads[0] % heads[1]:
        parser.error(f"--heads {heads[0]} is not a multiple of --kv-heads {heads[1]}")
    steps = [(s, c) for s in args.seq for c in args.context]
    for s, c in steps:
        if s > c:
            print(f"left out: s {s} over context {c} (the context counts the new tokens)", file=sys.stderr)
    shapes = [Shape(*heads, args.dtype or "f16", s, c) for s, c in steps if s <= c]
    if not shapes:
        parser.error("no --seq fits into any --context")
    return shapes


def row(backend: str, how: str, shape: Shape, times: dict[str, Any]) -> dict[str, Any]:
    """One line of the results; `times` holds at least amortised_us_p50 and amortised_us_p90."""
    seconds = times["amortised_us_p50"] * 1e-6
    rates = {"gb_per_s": shape.bytes() / seconds / 1e9, "tflop_per_s": shape.flops / seconds / 1e12}
    return {"backend": backend, "how": how, **asdict(shape), **times, **rates}


def percentile(values: Sequence[float], percent: float) -> float:
    """Between neighbours, linearly, as numpy does."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def families(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Rows by family of shapes, both in the order in which they came."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for entry in rows:
        grouped.setdefault(shape_of(entry).family, []).append(entry)
    yield from grouped.items()


def shape_of(entry: dict[str, Any]) -> Shape:
    return Shape(**{name: entry[name] for name in Shape.__dataclass_fields__})


def print_results(results: Results) -> None:
    """The table of every family, 80 columns wide, then what refused to run."""
    for family, rows in families(results.rows):
        print(f"\n{family}")
        print(f"{'backend':<11}{'how':<9}{'s':>5}{'context':>8}{'us p50':>10}{'us p90':>10}"
              f"{'events':>10}{'GB/s':>8}{'TFLOP/s':>9}")
        for entry in rows:
            events = entry.get("events_us_p50")
            print(f"{entry['backend']:<11}{entry['how']:<9}{entry['new_tokens']:>5}{entry['context_len']:>8}"
                  f"{entry['amortised_us_p50']:>10.2f}{entry['amortised_us_p90']:>10.2f}"
                  f"{'-' if events is None else format(events, '.2f'):>10}"
                  f"{entry['gb_per_s']:>8.0f}{entry['tflop_per_s']:>9.2f}")
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for entry in results.refused:
        steps = reasons.setdefault((entry["backend"], entry["kv"], entry["reason"]), [])
        steps.append(f"d {entry['head_dim']} s {entry['new_tokens']} over {entry['context_len']}")
    if reasons:
        print("\nrefused")
    for (backend, kv, reason), steps in reasons.items():  # a reason stays one line, however long
        where = steps[0] if len(steps) == 1 else f"{len(steps)} shapes"
        print(f"{backend} {kv}, {where}: {reason}")


def finish(results: Results, args: argparse.Namespace) -> None:
    """Prints and writes everything; fails the program where nothing ran."""
    print_results(results)
    write_results(results, args)
    if not results.rows:
        sys.exit(1)


def write_results(results: Results, args: argparse.Namespace) -> None:
    if args.json:
        args.json.write_text(json.dumps(asdict(results), indent=1) + "\n")
    if args.csv:
        names = list(dict.fromkeys(name for entry in results.rows for name in entry))
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(results.rows)


def stop(message: str) -> NoReturn:
    """Ends with exit status 2: the machine lacks something, no benchmark ran."""
    print(message, file=sys.stderr)
    sys.exit(2)
