// What is cut, sticks out or lies over something else, by the boxes of the layout.
const wrong = [];
const box = (it) => it.getBoundingClientRect();
const say = (what, it, by) => wrong.push(what + ' ' + (it.textContent || it.className).trim().replace(/\s+/g, ' ').slice(0, 60) + ' by ' + by.toFixed(1));
const shown = (it) => it.checkVisibility() && !it.closest('.hidden, .skip') && box(it).width > 0;
const wide = document.documentElement.clientWidth;

// The page is as wide as the window, and nothing begins or ends outside of it.
for (const it of document.body.querySelectorAll('*')) {
  if (!shown(it) || it.closest('svg')) continue;
  const { left, right } = box(it);
  const scrolls = it.closest('pre');
  if (!scrolls && (right > wide + 1 || left < -1)) say('off the screen:', it, Math.max(right - wide, -left));
}
// Nothing holds more than it shows: cells, captions, labels, tables.
for (const it of document.querySelectorAll('.wide, th, td, caption, label, legend, dt, dd, h1, h2, li, nav, nav a, button, summary, .panel, .facts, .legend, .legend *, figcaption, .over, .note, bdi, bdi *')) {
  if (!shown(it) || it.querySelector('svg.icicle')) continue;
  const over = it.scrollWidth - it.clientWidth;
  // An element in a line has no box of its own.
  if (getComputedStyle(it).display !== 'inline' && over > 1) say('cut:', it, over);
}
// Texts of a cell stay in it; cells, heads and other texts side by side do not touch each other.
const apart = (all, what, slack = 1) => {
  const boxes = all.filter(shown).map((it) => [it, box(it)]).filter(([, b]) => b.height > 0);
  boxes.sort((a, b) => a[1].top - b[1].top);
  for (let at = 0; at < boxes.length; at++) {
    for (let next = at + 1; next < boxes.length && boxes[next][1].top < boxes[at][1].bottom - slack; next++) {
      const [[one, a], [other, b]] = [boxes[at], boxes[next]];
      if (one.contains(other) || other.contains(one)) continue;
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      if (across > slack) say(what + ' ' + one.textContent.trim().slice(0, 30) + ' over', other, across);
    }
  }
};
const range = document.createRange();
for (const cell of document.querySelectorAll('th, td')) {
  if (!shown(cell)) continue;
  range.selectNodeContents(cell);
  const [a, b] = [range.getBoundingClientRect(), box(cell)];
  const over = Math.max(b.left - a.left, a.right - b.right);
  if (a.width && !cell.querySelector('svg') && over > 1) say('out of its cell:', cell, over);
}
// A name wraps only where no other column of its table has room to spare.
const isTall = (it) => box(it).height > 1.5 * parseFloat(getComputedStyle(it).lineHeight);
for (const table of document.querySelectorAll('table')) {
  const all = [...table.querySelectorAll('tbody .key:not(.text, .pairs) bdi')].filter(shown);
  const wrapped = all.find(isTall);
  const row = wrapped && getComputedStyle(wrapped.closest('tr'));
  // Neither where a row is a block.
  if (!wrapped || row.display === 'grid' && !row.gridTemplateColumns.startsWith('subgrid')) continue;
  const spare = new Map();
  for (const cell of table.querySelectorAll('tr > *')) {
    if (!shown(cell) || cell.colSpan > 1) continue;
    range.selectNodeContents(cell);
    const style = getComputedStyle(cell);
    const inner = box(cell).width - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const text = range.getBoundingClientRect();
    // What wraps may be as wide as it likes.
    const wraps = cell.matches('.key') && text.height > 1.5 * parseFloat(style.lineHeight);
    const left = wraps ? 0 : inner - text.width;
    spare.set(cell.cellIndex, Math.min(left, spare.get(cell.cellIndex) ?? left));
  }
  const [column, room] = [...spare].reduce((most, it) => it[1] > most[1] ? it : most, [0, 0]);
  if (room > 40) say(`wrapped beside room in column ${column}:`, wrapped, room);
  // Nor where another name could give instead.
  const names = [...table.querySelectorAll('tbody tr:first-child > .key:not(.text, .pairs)')].map((cell) => box(cell).width);
  for (const name of all) {
    const gap = Math.max(...names) - box(name.closest('.key')).width;
    if (isTall(name) && gap > 80) say('wrapped beside a wider name:', name, gap);
  }
}
// Numbers of a column have one unit, but for those that would be too long in it, and bytes.
const sizes = { '\u00b5s': 1e-6, ms: 1e-3, s: 1, h: 3600, d: 86400, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
for (const table of document.querySelectorAll('.wide table')) {
  const columns = Map.groupBy(table.querySelectorAll('tbody td'), (cell) => cell.cellIndex);
  for (const cells of columns.values()) {
    const found = cells.map((it) => it.textContent.match(/^[+\u2212]?([\d,.]+) (\u00b5s|ms|s|h|d|KiB|MiB|GiB)(?![\w/])/)).filter(Boolean);
    const least = Math.min(...found.map(([, , unit]) => sizes[unit]));
    for (const [text, number, unit] of found) {
      const inLeast = Number(number.replaceAll(',', '')) * sizes[unit] / least;
      if (sizes[unit] > least && inLeast < (least === 3600 ? 48 : 99000)) say('another unit, ' + text + ':', cells[0].closest('table'), inLeast);
    }
  }
}
for (const table of document.querySelectorAll('table')) apart([...table.querySelectorAll('th, td, caption')], 'cell');
for (const svg of document.querySelectorAll('.chart svg')) {
  apart([...svg.querySelectorAll('text')], 'label');
  for (const text of svg.querySelectorAll('text')) {
    const [a, b] = [box(text), box(svg)];
    const over = Math.max(b.left - a.left, a.right - b.right, b.top - a.top, a.bottom - b.bottom);
    if (over > 1) say('out of its chart:', text, over);
  }
}
apart([...document.querySelectorAll('h1, h2, nav a, nav span, summary, label, button, .facts > div, figure.chart, .panel, .wide, p, figcaption, .views, .time, .pager')], 'element');
// Charts of one row stand on one line.
const charts = [...document.querySelectorAll('.charts.four figure')].filter(shown);
for (const [at, chart] of charts.entries()) {
  const before = charts[at - 1];
  if (!before || Math.abs(box(before).top - box(chart).top) > 2) continue;
  const [a, b] = [before, chart].map((it) => box(it.querySelector('svg')));
  if (Math.abs(a.top - b.top) > 1 || Math.abs(a.bottom - b.bottom) > 1) say('not on one line:', chart, Math.abs(a.top - b.top));
}
// A chart fills its panel.
for (const chart of [...document.querySelectorAll('figure.chart')].filter(shown)) {
  const svg = chart.querySelector('svg[role=img]');
  const style = getComputedStyle(chart);
  const room = svg && chart.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - box(svg).width;
  if (room > 2) say('narrower than its panel:', chart, room);
}
// Panels side by side end on one line, and leave no hole beside or below the map.
for (const all of document.querySelectorAll('.beside, .panels.top')) {
  const parts = [...all.querySelectorAll('.panel, figure.chart')].filter(shown);
  for (const one of parts) {
    const line = parts.map(box).filter((it) => Math.abs(it.top - box(one).top) <= 1);
    const [bottom, right] = ['bottom', 'right'].map((side) => Math.max(...line.map((it) => it[side])));
    if (bottom - box(one).bottom > 1) say('a hole below:', one, bottom - box(one).bottom);
    if (wide >= 1600 && all.matches('.beside') && box(all).right - right > 1) say('a hole beside:', one, box(all).right - right);
  }
}
// A heat map stands right below its caption.
for (const chart of [...document.querySelectorAll('.heat figure.chart')].filter(shown)) {
  const [caption, svg] = ['figcaption', 'svg[role=img]'].map((it) => chart.querySelector(it));
  const room = svg && box(svg).top - box(caption).bottom;
  if (room > 20) say('away from its caption:', chart, room);
}
// A tag is broken only where it is longer than its line.
for (const tag of [...document.querySelectorAll('.pair')].filter(shown)) {
  if (tag.textContent.length < 22 && tag.getClientRects()[0].height > 1.9 * parseFloat(getComputedStyle(tag).lineHeight || 20)) say('broken:', tag, box(tag).height);
}
// What can be read on paper of this size can be read here.
for (const text of [...document.querySelectorAll('main svg text')].filter(shown)) {
  if (box(text).height < 8) say('too small:', text, box(text).height);
}
return wrong;
