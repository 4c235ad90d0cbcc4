#!/usr/bin/env python3
"""Check that ExecuTorch's Inspector shows an exported profile as it is.

usage: etdump_check.py FILE.etdp FILE.json
Opens the ETDump with executorch.devtools.Inspector, prints its table, and compares blocks, names, instructions and times with
the JSON export of the same profile. Exits with 1 where they differ."""
import argparse, json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
from executorch.devtools import Inspector

COUNTED = ("ok", "overlap_removed")
TOLERANCE_MS = 1.001e-6        # a duration in whole ns is at most 1 ns off


def wanted_blocks(profile):
    """Runs with the same events are one block: [{(name, instruction): [ms, ...]}] in the order of the runs."""
    blocks = {}
    for run in profile["runs"]:
        events = {(f"{s['kernel']} #{s['dispatch']}", s["instruction"]): s["duration_ns"] / 1e6
                  for s in run["samples"] if s["quality"] in COUNTED}
        if events:
            block = blocks.setdefault(tuple(events), {event: [] for event in events})
            for event, ms in events.items():
                block[event].append(ms)
    return list(blocks.values())


def differences(inspector, profile):
    wanted = wanted_blocks(profile)
    if len(inspector.event_blocks) != len(wanted):
        yield f"{len(inspector.event_blocks)} blocks, wanted {len(wanted)}"
    for number, (block, events) in enumerate(zip(inspector.event_blocks, wanted)):
        shown = {(event.name, event._instruction_id): event for event in block.events}
        if block.name != "Execute" or list(shown) != list(events):
            yield f"block {number} ({block.name}) has {list(shown)}, wanted {list(events)}"
            continue
        for (name, instruction), ms in events.items():
            event = shown[name, instruction]
            raw = event.perf_data.raw
            if len(raw) != len(ms) or any(abs(a - b) > TOLERANCE_MS for a, b in zip(raw, ms)):
                yield f"block {number}, {name}: {raw} ms, wanted {ms}"
            if event.delegate_debug_identifier != name or not event.is_delegated_op:
                yield f"block {number}, {name}: identifier {event.delegate_debug_identifier!r} of no delegate"


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("etdump")
    ap.add_argument("json")
    args = ap.parse_args()
    profile = json.load(open(args.json, encoding="utf-8"))
    inspector = Inspector(etdump_path=args.etdump)
    if inspector.event_blocks:             # it cannot print a table without rows
        inspector.print_data_tabular()
    found = list(differences(inspector, profile))
    if found:
        sys.exit("\n".join(found))
    blocks = wanted_blocks(profile)
    times = sum(len(ms) for block in blocks for ms in block.values())
    print(f"same as {args.json}: {len(blocks)} blocks, {sum(map(len, blocks))} events, {times} times")
