#!/usr/bin/env python3
"""Compares what `torchlight generate` makes of the prompts of a golden.json with the greedy tokens recorded there.

    generate_check.py MODEL.pte TOKENIZER.json GOLDEN.json [--tokens 24] [--most N] [--torchlight COMMAND]

MODEL.pte's file name is its entry in GOLDEN.json, as export_smollm2.py writes it. Prints for each prompt how many tokens are the
same and, where one differs, how far the recorded logits of the two tokens lay apart: a near tie may fall either way. Fails where
fewer than --tokens are the same. --most makes fewer tokens than were recorded, for slow devices. Prompts of chats stand in
GOLDEN.json as ChatML, which the tokenizer reads as the model's own marks. Needs Python only.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys


def generate(args, text, count):
    command = shlex.split(args.torchlight) + [
        "generate", args.model, "--tokenizer", args.tokenizer, "--prompt", text, "--max-tokens", str(count), "--ignore-end", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def gap(step, wanted, got):
    """How far the recorded logits of two tokens lie apart, in words."""
    logits = dict(map(tuple, step))
    if got in logits:
        return f"a gap of {logits[wanted] - logits[got]:.4f}"
    return f"a gap of more than {logits[wanted] - min(logits.values()):.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("tokenizer")
    parser.add_argument("golden")
    parser.add_argument("--tokens", type=int, default=24, help="how many have to be the same")
    parser.add_argument("--most", type=int, help="how many to make; without it as many as were recorded")
    parser.add_argument("--torchlight", default="torchlight", help="the command, with options of its own")
    args = parser.parse_args()
    golden = json.loads(pathlib.Path(args.golden).read_text(encoding="utf-8"))[pathlib.Path(args.model).name]
    failed = False
    for prompt in golden["prompts"]:
        wanted = prompt["greedy_ids"][:args.most]
        made = generate(args, prompt["text"], len(wanted))
        if made["prompt_tokens"] != prompt["prompt_ids"]:
            print(f"{prompt['name']}: the prompt's tokens differ: {made['prompt_tokens']}")
            failed = True
            continue
        got = made["tokens"]
        same = next((i for i, (a, b) in enumerate(zip(wanted, got)) if a != b), min(len(wanted), len(got)))
        line = f"{prompt['name']}: {same} of {len(wanted)} tokens are the same"
        if same < min(len(wanted), len(got)):
            line += f"; then {got[same]} for {wanted[same]}, over {gap(prompt['top5'][same], wanted[same], got[same])}"
        print(f"{line}; prefill {made['prefill_tokens_per_s']:.1f}, decode {made['decode_tokens_per_s']:.1f} tokens/s", flush=True)
        failed |= same < min(args.tokens, len(wanted))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
