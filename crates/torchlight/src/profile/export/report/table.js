// The table of statistics, sorted by the heading that was pressed last.
{
  const { all_rows, shapes, rows: lines } = data.table;
  const us = (ns) => fixed(ns === null ? null : ns / 1e3, 2);
  // Heading, what it sorts by, how it reads, and whether it is text.
  const columns = [
    { name: 'Kernel', key: (row) => data.kernels[row.kernel].name, isText: true,
      cell: (row) => [swatch(paint(row.kernel)), html('span', { class: 'name', title: data.kernels[row.kernel].name }, data.kernels[row.kernel].name)] },
    { name: 'Route', key: (row) => row.route, isText: true },
    { name: 'Shape', key: (row) => shapes[row.shape], isText: true },
    { name: 'Context', key: (row) => row.context_bucket, text: (row) => (row.context_bucket === null ? DASH : `≥ ${row.context_bucket}`) },
    { name: 'Dis-\npatches', key: (row) => row.dispatches, text: (row) => fixed(row.dispatches) },
    { name: 'Counted', key: (row) => row.counted, text: (row) => fixed(row.counted) },
    { name: 'Min\nµs', key: (row) => row.min_ns, text: (row) => us(row.min_ns) },
    { name: 'p50\nµs', key: (row) => row.p50_ns, text: (row) => us(row.p50_ns) },
    { name: 'p90\nµs', key: (row) => row.p90_ns, text: (row) => us(row.p90_ns) },
    { name: 'p99\nµs', key: (row) => row.p99_ns, text: (row) => us(row.p99_ns) },
    { name: 'Mean\nµs', key: (row) => row.mean_ns, text: (row) => us(row.mean_ns) },
    { name: 'Total\nms', key: (row) => row.total_ns, text: (row) => fixed(row.total_ns === null ? null : row.total_ns / 1e6, 3) },
    { name: 'Share', key: (row) => row.share, text: (row) => percent(row.share) },
    { name: 'GB/s', key: (row) => row.bandwidth_gbps, text: (row) => fixed(row.bandwidth_gbps, 2) },
    { name: 'GFLOP/s', key: (row) => row.gflops, text: (row) => fixed(row.gflops, 2) },
    { name: 'Flagged', key: (row) => Object.values(row.flagged).reduce((sum, count) => sum + count, 0), kind: 'text flags',
      text: (row) => flagText(row.flagged) || '0' },
  ];

  // Columns to rows.
  const line = (place) => Object.fromEntries(Object.entries(lines).map(([name, values]) => [name, values[place]]));
  const rows = (lines.kernel ?? []).map((kernel, place) => line(place)).map((row) => ({
    row,
    element: html('tr', {}, ...columns.map((column) => {
      const cell = column.cell?.(row) ?? [column.text?.(row) ?? column.key(row) ?? DASH];
      const flags = column.kind && Object.keys(row.flagged).length > 0 ? column.kind : column.kind?.split(' ')[0];
      return html('td', { class: column.isText ? 'text' : flags ?? '' }, ...cell);
    })),
  }));
  const headings = columns.map((column) => {
    const button = html('button', { type: 'button' }, column.name);
    const isText = column.isText || column.kind !== undefined;
    const heading = html('th', { scope: 'col', class: isText ? 'text' : '', 'aria-sort': 'none' }, button);
    button.addEventListener('click', () => {
      // Text begins with A, numbers with the largest; again turns it round.
      const first = column.isText ? 'ascending' : 'descending';
      const other = column.isText ? 'descending' : 'ascending';
      sort(column, heading.getAttribute('aria-sort') === first ? other : first);
    });
    return heading;
  });
  const body = html('tbody');

  /** Sorts by a column; what was not measured stays at the end either way. */
  function sort(column, direction) {
    const sign = direction === 'ascending' ? 1 : -1;
    const keyed = rows.map(({ row, element }) => ({ key: column.key(row), element }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return sign * (column.isText ? a.key.localeCompare(b.key, 'en', { numeric: true }) : a.key - b.key);
    });
    headings.forEach((heading, place) => heading.setAttribute('aria-sort', columns[place] === column ? direction : 'none'));
    body.replaceChildren(...keyed.map(({ element }) => element));
  }

  byId('table').append(html('thead', {}, html('tr', {}, ...headings)), body);
  sort(columns.find((column) => column.name.startsWith('Total')), 'descending');
  if (rows.length < all_rows) byId('table-caption').append(` Thinned: the ${fixed(rows.length)} of ${fixed(all_rows)} lines with the most time.`);
  if (rows.length === 0) body.append(html('tr', {}, html('td', { class: 'text', colspan: columns.length }, 'No dispatch was timed.')));
}
