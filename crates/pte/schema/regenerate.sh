#!/bin/sh
# Writes src/generated/*.rs from the schemas beside this file. PLANUS names the generator where it is not on the path.
set -eu
cd "$(dirname "$0")/.."
for schema in program vkgraph flat_tensor; do
    generated="src/generated/$schema.rs"
    "${PLANUS:-planus}" rust --format false -o "$generated" "schema/$schema.fbs"
    sed -E -i 's/::serde::(Serialize|Deserialize) *,?//g' "$generated"
    rustfmt --edition 2024 "$generated"
done
