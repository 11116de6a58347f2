const outside = [];
const check = (what, inner, outer) => {
  const [a, b] = [inner.getBoundingClientRect(), outer.getBoundingClientRect()];
  const over = Math.max(b.left - a.left, a.right - b.right, b.top - a.top, a.bottom - b.bottom);
  if (a.width && over > 1) outside.push(what + ' ' + inner.textContent.trim().slice(0, 60) + ' by ' + over.toFixed(1));
};
for (const chart of document.querySelectorAll('figure.chart, .shares')) {
  check('chart', chart, chart.parentElement);
  for (const part of chart.querySelectorAll('figcaption, .legend, .legend *')) check('legend', part, chart);
  for (const text of chart.querySelectorAll('svg text')) check('text', text, text.ownerSVGElement);
}
return outside;
