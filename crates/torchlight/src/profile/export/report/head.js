// The head: what ran where, how much of it was measured, and the kernels at a glance.
{
  const { adapter, counts, clock, modes } = data;
  byId('device').textContent = [adapter.name, adapter.backend, adapter.driver].filter((part) => part !== '').join(' · ');

  const note = (...parts) => byId('notes').append(html('p', { class: 'note' }, ...parts));
  if (adapter.is_cpu) note('This adapter is a CPU that plays GPU: good for labels and structure, not for speed.');
  if (modes.length > 1) note(`Runs were timed in several modes (${modes.join(', ')}), which do not compare. The statistics hold them all.`);
  if (counts.untimed_runs > 0) note(`${plural(counts.untimed_runs, 'run')} not timed: the results of too many earlier ones were still under way.`);
  if (counts.dropped_runs > 0) note(`The dispatches of ${plural(counts.dropped_runs, 'earlier run')} were not kept: they are in the statistics, and not in the figures by step and in the timeline.`);

  const fact = (name, value, small = '') => byId('facts').append(html('div', {}, html('dt', {}, name),
    html('dd', {}, value, small === '' ? null : html('small', {}, small))));
  const flags = Object.values(counts.flagged).reduce((sum, count) => sum + count, 0);
  const tick = (clock) => `${fixed(clock.period_ns, Number.isInteger(clock.period_ns) ? 0 : 3)} ns`;
  fact('Timestamps', modes.length === 0 ? DASH : modes.join(', '), 'mode');
  fact('Runs', fixed(counts.kept_runs), `kept; ${fixed(counts.dropped_runs)} not kept, ${fixed(counts.untimed_runs)} not timed`);
  fact('Dispatches', fixed(counts.dispatches), `${fixed(counts.counted)} counted`);
  fact('Flagged', fixed(flags), flagText(counts.flagged));
  fact('Clock', clock === null ? DASH : tick(clock), clock === null ? '' : `a tick; stamps step by ${plural(clock.quantum_ticks, 'tick')}`);

  for (const [kernel, { dispatches, mean_ns, share }] of data.kernels.entries()) {
    byId('kernels').append(html('li', {},
      swatch(paint(kernel)),
      kernelName(kernel),
      html('span', { class: 'track', 'aria-hidden': 'true' },
        svg('svg', {}, svg('rect', { width: `${(share ?? 0) * 100}%`, height: '100%', style: paint(kernel) }))),
      html('span', { class: 'number' }, percent(share)),
      html('span', { class: 'number soft' }, `${time(mean_ns)} mean`),
      html('span', { class: 'number soft dispatches' }, plural(dispatches, 'dispatch'))));
  }
  if (data.kernels.length === 0) byId('kernels').append(html('li', { class: 'caption' }, 'No dispatch was timed.'));
}
