// Columns of whole numbers as text, as `columns.rs` writes them.

/** Objects of columns: a row tells how far its numbers are from those of the row before it, or before it in its group. */
function readColumns(texts, groups = []) {
  const column = (text) => {
    const before = [];
    return readNumbers(text).map((more, row) => {
      if (more === null) return null;
      const group = groups[row] ?? 0;
      before[group] = (before[group] ?? 0) + more;
      return before[group];
    });
  };
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, column(text)]));
}

/** Numbers in digits of five bits, the lowest first, with 32 added where another follows. The lowest bit of all is the sign. */
function readNumbers(text) {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const values = [];
  let [value, sign, scale] = [0, 1, 0];
  for (const character of text) {
    const digit = digits.indexOf(character);
    if (digit === -1) { values.push(null); continue; }
    const bits = digit % 32;
    // Sums, since bit operations of scripts end at 32 bits.
    if (scale === 0) [value, sign, scale] = [bits >> 1, bits % 2 === 0 ? 1 : -1, 16];
    else [value, scale] = [value + bits * scale, scale * 32];
    if (digit < 32) { values.push(sign * value); scale = 0; }
  }
  return values;
}
