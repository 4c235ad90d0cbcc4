// The timeline: a row for the host and one for each kernel. The view is a stretch of time that all gestures change.
{
  const { strings, all_runs, all_dispatches, is_cut } = data.timeline;
  const PHASES = ['prepare', 'encode', 'submit', 'wait', 'readback', 'unattributed'];
  const SHORTEST_VIEW_NS = 50;
  const [TOP, ROW, BAR] = [44, 38, 17];

  // Columns to dispatches and runs. Times are from the start of the first run.

  const runs = readColumns(data.timeline.runs);
  const variants = readColumns(data.timeline.variants);
  const { variant } = readColumns(data.timeline.sequence);
  const samples = readColumns(data.timeline.samples, variant);
  const dispatches = [];
  const host = [];
  const spans = [];
  let returned = 0;
  let deviceEnd = 0;
  runs.run.forEach((number, place) => {
    const start = returned + runs.pause[place];
    const phases = PHASES.map((phase) => runs[phase][place]);
    returned = start + phases.reduce((sum, ns) => sum + ns, 0);
    let at = start;
    phases.forEach((ns, phase) => {
      if (ns > 0) host.push({ phase, run: place, begin: at, end: at + ns });
      at += Math.max(ns, 0);
    });
    // The device's clock is not the host's: a run's earliest stamp is put where its submit ends.
    const [prepare, encode, submit] = phases;
    const origin = Math.max(start + prepare + encode + submit, deviceEnd);
    const first = dispatches.length;
    let latestEnd = 0;
    for (let index = first; index < first + runs.dispatches[place]; index += 1) {
      const of = (column) => variants[column][variant[index]];
      const [gap, length, correction] = [samples.gap[index], samples.length[index], samples.correction[index]];
      const stamped = gap === null ? null : latestEnd + gap;
      const own = stamped === null ? 0 : Math.max(stamped + length - Math.max(stamped, latestEnd), 0);
      const duration = correction === null ? null : own + correction;
      const end = stamped === null ? null : origin + stamped + length;
      if (stamped !== null) latestEnd = Math.max(latestEnd, stamped + length);
      dispatches.push({
        kernel: of('kernel'), route: data.timeline.routes[of('route')] ?? null, operator: strings[of('operator')], node: of('node'),
        shape: strings[of('shape')], run: place, number: index - first, context: samples.context[index], bytes: samples.bytes[index],
        quality: data.timeline.qualities[samples.quality[index]], stamped, duration, end,
        begin: end === null ? null : end - (duration ?? length),
      });
      deviceEnd = Math.max(deviceEnd, end ?? 0);
    }
    spans.push({ begin: start, end: Math.max(returned, deviceEnd) });
  });
  const end = Math.max(...spans.map((span) => span.end), 1);
  const used = [...new Set(dispatches.map((dispatch) => dispatch.kernel))].sort((a, b) => a - b);
  const rows = [{ title: 'Host', items: host }, ...used.map((kernel) => ({
    kernel,
    title: data.kernels[kernel].name,
    items: dispatches.filter((dispatch) => dispatch.kernel === kernel && dispatch.end !== null),
  }))];
  for (const row of rows) row.longest = row.items.reduce((most, item) => Math.max(most, item.end - item.begin), 0);

  // What the page says about it.

  const unplaced = dispatches.filter((dispatch) => dispatch.end === null).length;
  byId('timeline-caption').textContent = runs.run.length === 0 ? 'No run was kept.' : [
    'Host and device have clocks of their own: the earliest stamp of a run is put where the host’s submit ends. Times on one row compare, times across rows of host and device do not.',
    runs.run.length < all_runs || is_cut ? `Thinned: ${fixed(runs.run.length)} of ${fixed(all_runs)} runs and ${fixed(dispatches.length)} of ${fixed(all_dispatches)} dispatches are shown, ${is_cut ? 'of a run the first.' : 'whole runs evenly from the first to the last.'}` : '',
    unplaced > 0 ? `${plural(unplaced, 'dispatch')} without stamps in order cannot be placed.` : '',
    dispatches.some((dispatch) => dispatch.quality !== 'ok') ? 'Dashed outlines are flagged.' : '',
  ].filter((text) => text !== '').join(' ');

  const runText = (run) => `run ${fixed(runs.run[run])} · step ${fixed(runs.step[run])}`;

  function describe(item) {
    const start = spans[item.run].begin;
    if (item.phase !== undefined) {
      return [html('h3', {}, swatch(`fill:var(--h${item.phase})`), `Host: ${PHASES[item.phase]}`), list([
        ['in', runText(item.run)], ['begin', time(item.begin - start)], ['duration', time(item.end - item.begin)]])];
    }
    const counts = item.duration > 0 && ['ok', 'overlap_removed'].includes(item.quality);
    return [html('h3', {}, swatch(paint(item.kernel)), kernelName(item.kernel)), list([
      ['in', `${runText(item.run)} · dispatch ${item.number}`],
      ['operator', `${item.operator} · node ${item.node}`],
      ['shape', item.shape],
      ['context', `${item.context ?? DASH}`],
      ['route', item.route ?? DASH],
      ['begin', time(item.stamped)],
      ['duration', time(item.duration)],
      ['quality', item.quality],
      ['GB/s', fixed(counts && item.bytes > 0 ? item.bytes / item.duration : null, 2)]])];
  }

  // The view.

  const figure = byId('timeline');
  const overview = byId('overview');
  const view = { from: 0, to: end };
  let width = 0;
  let picked = null;
  let isWaiting = false;

  /** Sets the view, kept within the runs. */
  function setView(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST_VIEW_NS), end * 1.04);
    view.from = Math.max(-end * 0.02, Math.min((from + to - span) / 2, end * 1.02 - span));
    view.to = view.from + span;
    tooltip.hide();
    picked = null;
    redraw();
  }

  function redraw() {
    if (isWaiting || width === 0) return;
    isWaiting = true;
    requestAnimationFrame(() => { isWaiting = false; draw(); });
  }

  /** Changes the length of the view by a factor around a place in it, from 0 to 1. */
  function zoom(factor, place = 0.5) {
    const span = view.to - view.from;
    const at = view.from + span * place;
    const next = Math.min(Math.max(span * factor, SHORTEST_VIEW_NS), end * 1.04);
    setView(at - next * place, at + next * (1 - place));
  }

  const pan = (share) => setView(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
  const showAll = () => setView(-end * 0.02, end * 1.02);
  const viewedRun = () => Math.max(0, spans.findLastIndex((span) => span.begin <= (view.from + view.to) / 2));

  function showRun(run) {
    const span = spans[Math.max(0, Math.min(run, spans.length - 1))];
    const margin = (span.end - span.begin) * 0.03;
    setView(span.begin - margin, span.end + margin);
  }

  // Drawing. Items of a row that touch on the screen become one rectangle, and a row one path.

  const x = (ns) => ((ns - view.from) / (view.to - view.from)) * width;

  /** The items of a row in view, in the order of their begins. */
  function visible(row) {
    let [low, high] = [0, row.items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.items[middle].begin < view.from - row.longest) low = middle + 1; else high = middle;
    }
    let last = low;
    while (last < row.items.length && row.items[last].begin <= view.to) last += 1;
    return row.items.slice(low, last);
  }

  function path(items, top, height) {
    const parts = [];
    let [left, right] = [NaN, NaN];
    const close = () => { if (left <= right) parts.push(`M${left.toFixed(1)} ${top}H${right.toFixed(1)}V${top + height}H${left.toFixed(1)}Z`); };
    for (const item of items) {
      const from = Math.max(x(item.begin), -4);
      const to = Math.min(Math.max(x(item.end), from + 1), width + 4);
      if (from <= right + 0.3 && to - from < 2) { right = Math.max(right, to); continue; }
      close();
      [left, right] = [from, Math.max(to - (to - from > 4 ? 0.7 : 0), from + 1)];
    }
    close();
    return parts.join('');
  }

  /** Whether a row has too many items in view to tell them apart. */
  const isDense = (items) => items.length > width / 4;

  /** A column for every two pixels, as high as the share of time that items take. Columns stand on `below`, and raise it. */
  function columns(items, bottom, height, below) {
    const step = 2;
    const busy = new Array(Math.ceil(width / step)).fill(0);
    for (const item of items) {
      const [from, to] = [Math.max(x(item.begin), 0) / step, Math.min(x(item.end), width) / step];
      for (let bin = Math.floor(from); bin < Math.min(to, busy.length); bin += 1) busy[bin] += Math.min(to, bin + 1) - Math.max(from, bin);
    }
    return busy.map((share, bin) => {
      if (share <= 0) return '';
      const high = Math.min(Math.max(share * height, below[bin] === 0 ? 1 : 0), height - below[bin]);
      below[bin] += high;
      return `M${bin * step} ${(bottom - below[bin]).toFixed(1)}h${step}v${high.toFixed(1)}h${-step}Z`;
    }).join('');
  }

  function drawRow(drawing, row, place) {
    const top = TOP + place * ROW;
    const items = visible(row);
    const bar = top + ROW - BAR - 3;
    const below = new Array(Math.ceil(width / 2)).fill(0);
    const shape = isDense(items) ? (some) => columns(some, bar + BAR, BAR, below) : (some) => path(some, bar, BAR);
    if (row.kernel === undefined) {
      PHASES.forEach((_, phase) => drawing.append(svg('path', { style: `fill:var(--h${phase})`, d: shape(items.filter((item) => item.phase === phase)) })));
      for (const item of items) {
        const [from, to] = [Math.max(x(item.begin), 0), Math.min(x(item.end), width)];
        if (to - from < PHASES[item.phase].length * 6.5 + 8) continue;
        drawing.append(svg('text', { class: 'on-host', x: (from + to) / 2, y: bar + BAR - 5, 'text-anchor': 'middle' }, PHASES[item.phase]));
      }
    } else {
      const isGood = (item) => item.quality === 'ok';
      drawing.append(
        svg('path', { style: paint(row.kernel), d: shape(items.filter(isGood)) }),
        svg('path', { class: 'flagged', style: paint(row.kernel), d: shape(items.filter((item) => !isGood(item))) }));
    }
    const most = Math.floor((width - 16) / 7);
    const title = row.title.length > most ? `${row.title.slice(0, most - 1)}…` : row.title;
    drawing.append(svg('text', { class: `strong title-of-row ${place % 2 === 0 ? 'on-band' : ''}`, x: 6, y: top + 13 }, title));
  }

  function drawAxis(drawing, height) {
    const span = view.to - view.from;
    const run = viewedRun();
    // Where few runs are in view, times are from the run's call: they then have few digits.
    const isNear = span < 3 * (spans[run].end - spans[run].begin);
    const origin = isNear ? spans[run].begin : 0;
    const unit = timeUnit(Math.max(Math.abs(view.from - origin), Math.abs(view.to - origin)));
    const axis = ticks((view.from - origin) / unit.ns, (view.to - origin) / unit.ns, width / 110);
    for (const value of axis.values) {
      const at = Math.round(x(origin + value * unit.ns)) + 0.5;
      drawing.append(svg('line', { class: 'grid', x1: at, x2: at, y1: 24, y2: height }));
      if (at < 26 || at > width - 34) continue;
      drawing.append(svg('text', { class: 'when', x: at, y: 36, 'text-anchor': 'middle' }, `${fixed(value === 0 ? 0 : value, axis.digits)} ${unit.name}`));
    }
    let free = 4;
    spans.forEach((span, place) => {
      const at = x(span.begin);
      if (at > width || x(span.end) < 0) return;
      const text = runText(place);
      const from = Math.max(at + 5, 5);
      if (from < free || from + text.length * 6.6 > width) return;
      free = from + text.length * 6.6 + 14;
      if (at >= 0) drawing.append(svg('line', { class: 'axis', x1: Math.round(at) + 0.5, x2: Math.round(at) + 0.5, y1: 4, y2: 22 }));
      drawing.append(svg('text', { class: 'strong', x: from, y: 16 }, text));
    });
    const from = isNear ? `the call of run ${fixed(runs.run[run])}` : 'the call of the first run';
    const heights = rows.some((row) => isDense(visible(row))) ? '; the height of crowded bars is their share of the time' : '';
    readout.textContent = `${time(span)} in view, times from ${from}${heights}`;
  }

  function draw() {
    const height = TOP + rows.length * ROW;
    const drawing = svg('svg', { viewBox: `0 0 ${width} ${height}` });
    for (let place = 0; place < rows.length; place += 2) drawing.append(svg('rect', { class: 'band', x: 0, y: TOP + place * ROW, width, height: ROW }));
    drawAxis(drawing, height);
    rows.forEach((row, place) => drawRow(drawing, row, place));
    if (picked !== null) {
      const [from, to] = [x(picked.item.begin), x(picked.item.end)];
      drawing.append(svg('rect', { class: 'picked', x: from - 1, width: Math.max(to - from, 1) + 2, y: TOP + picked.place * ROW + ROW - BAR - 4, height: BAR + 2 }));
    }
    figure.replaceChildren(drawing);
    drawOverview();
  }

  function drawOverview() {
    const [low, all] = [-end * 0.02, end * 1.04];
    const at = (ns) => ((ns - low) / all) * width;
    let marks = '';
    let right = -1;
    for (const span of spans) {
      const [from, to] = [at(span.begin), Math.max(at(span.end), at(span.begin) + 1)];
      if (to < right + 0.5) continue;
      marks += `M${from.toFixed(1)} 5H${to.toFixed(1)}V15H${from.toFixed(1)}Z`;
      right = to;
    }
    const [from, to] = [at(view.from), Math.max(at(view.to), at(view.from) + 6)];
    overview.replaceChildren(svg('svg', { viewBox: `0 0 ${width} 20` },
      svg('path', { class: 'runs', d: marks }),
      svg('rect', { class: 'window', x: Math.max(from, 0.5), width: Math.min(to, width - 0.5) - Math.max(from, 0.5), y: 0.5, height: 19 })));
  }

  // Gestures.

  const placeOf = (event) => (event.clientX - figure.getBoundingClientRect().left - 1) / width;

  /** Shows what is under a pointer, or within a few pixels of it. */
  function inspect(event) {
    const box = figure.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left - 1, event.clientY - box.top - 1];
    const place = Math.floor((top - TOP) / ROW);
    const row = rows[place];
    const reach = event.pointerType === 'mouse' ? 3 : 12;
    let nearest = null;
    let least = reach;
    for (const item of row === undefined ? [] : visible(row)) {
      const distance = Math.max(x(item.begin) - left, left - x(item.end), 0);
      if (distance < least) [nearest, least] = [item, distance];
    }
    const changed = picked?.item !== nearest;
    picked = nearest === null ? null : { item: nearest, place };
    if (nearest === null) tooltip.hide(); else tooltip.show(event.clientX, event.clientY, ...describe(nearest));
    if (changed && (nearest !== null || figure.querySelector('.picked'))) redraw();
  }

  const pointers = new Map();
  let moved = 0;
  figure.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    if (pointers.size === 0) moved = 0;
    pointers.set(event.pointerId, placeOf(event));
    figure.setPointerCapture(event.pointerId);
  });
  figure.addEventListener('pointermove', (event) => {
    if (!pointers.has(event.pointerId)) {
      if (event.pointerType === 'mouse') inspect(event);
      return;
    }
    const before = [...pointers.values()];
    moved += Math.abs(placeOf(event) - pointers.get(event.pointerId)) * width;
    pointers.set(event.pointerId, placeOf(event));
    const now = [...pointers.values()];
    if (moved < 4) return;
    figure.classList.add('moving');
    // What was below the pointers stays below them.
    const span = view.to - view.from;
    const [low, high] = [Math.min(...before), Math.max(...before)];
    const stretch = now.length > 1 ? (high - low) / Math.max(Math.abs(now[0] - now[1]), 0.01) : 1;
    const from = view.from + span * low - span * stretch * Math.min(...now);
    setView(from, from + span * stretch);
  });
  const release = (event) => {
    const wasDown = pointers.delete(event.pointerId);
    if (pointers.size > 0) return;
    figure.classList.remove('moving');
    if (wasDown && event.type === 'pointerup' && moved < 4) inspect(event);
  };
  figure.addEventListener('pointerup', release);
  figure.addEventListener('pointercancel', release);
  figure.addEventListener('pointerleave', (event) => {
    if (event.pointerType === 'mouse') { picked = null; tooltip.hide(); redraw(); }
  });
  figure.addEventListener('dblclick', (event) => zoom(0.4, placeOf(event)));
  figure.addEventListener('wheel', (event) => {
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !isSideways) return;
    event.preventDefault();
    if (isSideways) pan(event.deltaX / width); else zoom(Math.exp(Math.max(-60, Math.min(event.deltaY, 60)) / 120), placeOf(event));
  }, { passive: false });

  const actions = [
    { label: '−', title: 'Zoom out', keys: ['-'], act: () => zoom(2) },
    { label: '+', title: 'Zoom in', keys: ['+', '='], act: () => zoom(0.5) },
    { label: '‹ Run', title: 'Previous run', keys: ['p', 'P'], act: () => showRun(viewedRun() - 1) },
    { label: 'Run ›', title: 'Next run', keys: ['n', 'N'], act: () => showRun(viewedRun() + 1) },
    { label: 'All', title: 'Show all runs', keys: ['0'], act: showAll },
    { keys: ['ArrowLeft'], act: () => pan(-0.2) },
    { keys: ['ArrowRight'], act: () => pan(0.2) },
    { keys: ['ArrowUp'], act: () => zoom(0.7) },
    { keys: ['ArrowDown'], act: () => zoom(1 / 0.7) },
  ];
  const readout = html('output', { 'aria-live': 'polite' });
  for (const { label, title, act } of actions.filter((action) => action.label !== undefined)) {
    const button = html('button', { type: 'button', title, 'aria-label': title }, label);
    button.addEventListener('click', act);
    byId('timeline-controls').append(button);
  }
  byId('timeline-controls').append(readout);
  figure.addEventListener('keydown', (event) => {
    const action = actions.find(({ keys }) => keys.includes(event.key));
    if (action === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action.act();
  });

  const follow = (event) => {
    const at = ((event.clientX - overview.getBoundingClientRect().left) / width) * end * 1.04 - end * 0.02;
    const half = (view.to - view.from) / 2;
    setView(at - half, at + half);
  };
  overview.addEventListener('pointerdown', (event) => { overview.setPointerCapture(event.pointerId); follow(event); });
  overview.addEventListener('pointermove', (event) => { if (overview.hasPointerCapture(event.pointerId)) follow(event); });

  if (runs.run.length > 0) {
    // One run, since its dispatches are wide enough to be seen.
    showRun(0);
    drawToFit(figure, (fits) => { width = fits; draw(); });
  } else {
    for (const element of [byId('timeline-controls'), figure, overview, byId('timeline-help')]) element.hidden = true;
  }
}
