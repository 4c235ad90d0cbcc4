#!/bin/sh
# Writes src/profile/export/generated/*.rs from the schema beside this file. PLANUS names the generator off the path.
set -eu
cd "$(dirname "$0")/.."
generated="src/profile/export/generated/etdump.rs"
"${PLANUS:-planus}" rust --format false -o "$generated" schema/etdump.fbs
sed -E -i 's/::serde::(Serialize|Deserialize) *,?//g' "$generated"
rustfmt --edition 2024 "$generated"
