// Stacked bars: what the kernels of a step take, by step and context.
{
  const MOST_NAMED = 12;
  const { bars, steps_a_bar } = data.steps;
  const total = (bar) => bar.kernels_ns.reduce((sum, ns) => sum + (ns ?? 0), 0);
  const isMeasured = (bar) => bar.kernels_ns.some((ns) => ns !== null);
  const highest = Math.max(...bars.map(total), 0);
  const unit = timeUnit(highest);
  const shared = steps_a_bar > 1 ? ` A bar stands for ${fixed(steps_a_bar)} steps that follow each other, and is named by the first.` : '';
  byId('steps-caption').textContent = bars.length === 0 ? 'No run was kept.'
    : `Kernel time of a run in ${unit.name}: the mean over the step’s kept runs, of what counts.${shared}`;

  function describe(bar) {
    const kernels = bar.kernels_ns.map((ns, kernel) => ({ ns, kernel })).reverse();
    const present = kernels.filter(({ ns }) => ns !== null);
    // More would not fit into the window: those with the most time, in the order of the bar.
    const least = present.map(({ ns }) => ns).sort((a, b) => b - a)[MOST_NAMED - 1] ?? 0;
    const named = present.filter(({ ns }) => ns >= least).slice(0, MOST_NAMED);
    const unnamed = present.length - named.length;
    return [
      html('h3', {}, `${bar.first === bar.last ? 'Step' : 'Steps'} ${range([bar.first, bar.last])}`),
      list([
        ['context', bar.context === null ? DASH : range(bar.context)],
        ['runs', fixed(bar.runs)],
        ...named.map(({ ns, kernel }) => [[swatch(paint(kernel)), kernelName(kernel)], time(ns)]),
        ...(unnamed > 0 ? [['not listed', plural(unnamed, 'kernel')]] : []),
        ['all kernels', isMeasured(bar) ? time(total(bar)) : DASH],
      ]),
    ];
  }

  function draw(width) {
    const margin = { left: 54, right: 4, top: 20, bottom: 42 };
    const height = width < 500 ? 270 : 320;
    const base = height - margin.bottom;
    const inner = width - margin.left - margin.right;
    const axis = ticks(0, Math.max(highest / unit.ns, 1e-9), 5);
    const top = Math.max(axis.step * Math.ceil(highest / unit.ns / axis.step - 1e-9), axis.step) * unit.ns;
    const y = (ns) => base - (ns / top) * (base - margin.top);
    const drawing = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Kernel time by step' });

    for (let place = 0; place * axis.step * unit.ns <= top * (1 + 1e-9); place += 1) {
      const at = Math.round(y(place * axis.step * unit.ns)) + 0.5;
      drawing.append(
        svg('line', { class: place === 0 ? 'axis' : 'grid', x1: margin.left, x2: width - margin.right, y1: at, y2: at }),
        svg('text', { x: margin.left - 8, y: at + 4, 'text-anchor': 'end' }, fixed(place * axis.step, axis.digits)));
    }
    drawing.append(
      svg('text', { x: margin.left - 8, y: base + 18, 'text-anchor': 'end' }, 'step'),
      svg('text', { x: margin.left - 8, y: base + 34, 'text-anchor': 'end' }, 'context'));

    const room = inner / bars.length;
    const thickness = Math.min(room * 0.72, 84);
    const texts = bars.map(({ first, context }) => [`${first}`, context === null ? DASH : steps_a_bar > 1 ? `${context[0]}` : range(context)]);
    let free = margin.left;
    const totals = bars.map((bar) => (isMeasured(bar) ? fixed(total(bar) / unit.ns, axis.step >= 50 ? 0 : 1) : DASH));
    const totalsFit = Math.max(...totals.map((text) => text.length)) * 7 + 4 < room;

    bars.forEach((bar, place) => {
      const centre = margin.left + room * (place + 0.5);
      const group = svg('g', { class: 'bar', tabindex: 0, role: 'img',
        'aria-label': `Step ${texts[place][0]}, context ${texts[place][1]}: ${isMeasured(bar) ? time(total(bar)) : 'not measured'}` });
      let below = 0;
      bar.kernels_ns.forEach((ns, kernel) => {
        if (ns === null) return;
        const [from, to] = [y(below), y(below + ns)];
        below += ns;
        group.append(svg('rect', { class: 'segment', x: centre - thickness / 2, width: thickness, y: to, height: Math.max(from - to, 0.5), style: paint(kernel) }));
      });
      group.append(svg('rect', { class: 'hit', x: centre - room / 2, width: room, y: margin.top, height: base - margin.top }));
      if (totalsFit || !isMeasured(bar)) group.append(svg('text', { class: 'strong', x: centre, y: y(below) - 6, 'text-anchor': 'middle' }, totals[place]));
      // Labels that would touch the one before them are left out.
      const half = Math.max(...texts[place].map((text) => text.length)) * 3.7;
      const label = place === 0 ? Math.max(centre, free + half) : centre;
      if (label - half >= free && label + half <= width) {
        free = label + half + 8;
        group.append(
          svg('text', { class: 'strong', x: label, y: base + 18, 'text-anchor': 'middle' }, texts[place][0]),
          svg('text', { x: label, y: base + 34, 'text-anchor': 'middle' }, texts[place][1]));
      }
      const show = (event) => tooltip.show(event.clientX, event.clientY, ...describe(bar));
      group.addEventListener('pointermove', show);
      group.addEventListener('pointerdown', show);
      group.addEventListener('pointerleave', (event) => { if (event.pointerType === 'mouse') tooltip.hide(); });
      group.addEventListener('focus', () => {
        if (!group.matches(':focus-visible')) return;
        const box = group.getBoundingClientRect();
        tooltip.show(box.left + box.width / 2, box.top + box.height / 2, ...describe(bar));
      });
      group.addEventListener('blur', () => tooltip.hide());
      drawing.append(group);
    });
    byId('bars').replaceChildren(drawing);
  }

  if (bars.length > 0) drawToFit(byId('bars'), draw);
}
