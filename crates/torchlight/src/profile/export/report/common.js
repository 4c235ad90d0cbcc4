'use strict';
// What the other scripts share: the data, elements, numbers as text, the look of kernels, the tooltip and the theme.
//
// All drawings are plain SVG, without a library: they then print as lines, follow the page's colours by CSS, are read by
// screen readers, and hold no more nodes than pixels, since the timeline draws one path a row. Chart libraries draw on a
// canvas, which does none of that, and would be most of the page's size.

const data = JSON.parse(document.getElementById('data').textContent);
const SVG = document.getElementById('patterns').namespaceURI;
const DASH = '–';
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; text children are text, whatever is in it. */
function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a part of a drawing. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Numbers.

/** A number with so many digits behind the point; a dash for null. */
function fixed(value, digits = 0) {
  if (value === null || value === undefined) return DASH;
  return value.toLocaleString('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

const percent = (share) => (share === null ? DASH : `${fixed(share * 100, 1)} %`);

/** The unit that suits times of this size. */
function timeUnit(ns) {
  const units = [{ ns: 1e9, name: 's' }, { ns: 1e6, name: 'ms' }, { ns: 1e3, name: 'µs' }];
  return units.find((unit) => Math.abs(ns) >= unit.ns) ?? { ns: 1, name: 'ns' };
}

/** A time in the unit that suits it. */
function time(ns) {
  if (ns === null || ns === undefined) return DASH;
  const unit = timeUnit(ns);
  return `${fixed(ns / unit.ns, unit.ns === 1 ? 0 : 2)} ${unit.name}`;
}

/** Round numbers from low to high, about so many, with the digits that tell them apart. */
function ticks(low, high, about) {
  const rough = (high - low) / Math.max(about, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
  const values = [];
  for (let place = Math.ceil(low / step); place * step <= high * (1 + 1e-9); place += 1) values.push(place * step);
  return { values, step, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

const plural = (count, word) => `${fixed(count)} ${word}${count === 1 ? '' : word.endsWith('ch') ? 'es' : 's'}`;
const range = ([low, high]) => (low === high ? `${low}` : `${low}–${high}`);
const flagText = (flags) => Object.entries(flags).map(([flag, count]) => `${fixed(count)}\u00a0${flag}`).join(', ');

// Kernels. The one with the most time gets the first colour; after six colours come six stripes, then grey.

const COLOURS = 6;
const looks = new Map(
  data.kernels.map((kernel, place) => place)
    .sort((a, b) => (data.kernels[b].share ?? -1) - (data.kernels[a].share ?? -1))
    .map((kernel, rank) => [kernel, lookOf(rank)]),
);

function lookOf(rank) {
  if (rank < COLOURS) return `var(--k${rank})`;
  return rank < 2 * COLOURS ? `url(#stripes${rank - COLOURS})` : 'var(--other)';
}

for (let colour = 0; colour < COLOURS; colour += 1) {
  const attributes = { id: `stripes${colour}`, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' };
  document.querySelector('#patterns defs').append(svg('pattern', attributes,
    svg('rect', { width: 6, height: 6, style: `fill:var(--k${colour})` }),
    svg('rect', { width: 2, height: 6, style: 'fill:var(--paper)' })));
}

const paint = (kernel) => `fill:${looks.get(kernel)}`;
const swatch = (style) => svg('svg', { class: 'swatch', 'aria-hidden': 'true' }, svg('rect', { width: 12, height: 12, style }));
const kernelName = (kernel) => html('span', { class: 'name' }, data.kernels[kernel].name);

// The tooltip: one for the page, always inside the window.

const tooltip = {
  element: byId('tooltip'),
  /** Shows nodes beside a point of the window. */
  show(x, y, ...nodes) {
    this.element.replaceChildren(...nodes);
    this.element.hidden = false;
    const { width, height } = this.element.getBoundingClientRect();
    const [gap, margin] = [14, 8];
    const right = document.documentElement.clientWidth - margin;
    const bottom = window.innerHeight - margin;
    const left = x + gap + width <= right ? x + gap : x - gap - width;
    // A finger hides what is below it.
    const isAbove = y + gap + height > bottom || (matchMedia('(pointer: coarse)').matches && y - gap - height >= margin);
    const top = isAbove ? y - gap - height : y + gap;
    const within = (value, most) => Math.max(margin, Math.min(value, most));
    this.element.style.transform = `translate(${within(left, right - width)}px, ${within(top, bottom - height)}px)`;
  },
  hide() { this.element.hidden = true; },
};
addEventListener('keydown', (event) => { if (event.key === 'Escape') tooltip.hide(); });
addEventListener('scroll', () => tooltip.hide(), { passive: true });
addEventListener('pointerdown', (event) => { if (!event.target.closest('.figure')) tooltip.hide(); });

/** Names and values for the tooltip. A value is text or a node. */
const list = (pairs) => html('dl', {}, ...pairs.flatMap(([name, value]) => [html('dt', {}, ...[name].flat()), html('dd', {}, value)]));

/** Draws now and whenever the element's width changes. */
function drawToFit(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (element.clientWidth === width || element.clientWidth === 0) return;
    width = element.clientWidth;
    draw(width);
  }).observe(element);
}

// The theme: the system's, light, dark.

byId('theme').addEventListener('click', ({ currentTarget }) => {
  const themes = ['system', 'light', 'dark'];
  const root = document.documentElement;
  const theme = themes[(themes.indexOf(root.dataset.theme ?? 'system') + 1) % themes.length];
  if (theme === 'system') delete root.dataset.theme; else root.dataset.theme = theme;
  currentTarget.textContent = `Theme: ${theme}`;
});
