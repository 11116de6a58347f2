const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
// A canvas turns any notation of a colour into numbers.
const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const rgba = (colour) => { context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1); return context.getImageData(0, 0, 1, 1).data; };
const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
const contrast = (one, other) => {
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
const faint = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest('.hidden, .skip, option, title, desc')) continue;
  const style = getComputedStyle(element);
  const ink = rgba(element.closest('svg') ? style.fill : style.color);
  const bar = element.closest('th.key')?.querySelector('.bar rect');
  const grounds = [behind(element)].concat(bar ? [rgba(getComputedStyle(bar).fill)] : []);
  for (const ground of grounds) {
    const ratio = contrast(ink, ground);
    if (ratio < 4.5) faint.push(texts.currentNode.data.trim().slice(0, 40) + ' ' + ratio.toFixed(2));
  }
}
for (const mark of document.querySelectorAll('.chart .line, .chart .column, .chart line.mark, .run')) {
  const style = getComputedStyle(mark);
  const colour = rgba(style.fill === 'none' || mark.matches('line') ? style.stroke : style.fill);
  const track = mark.parentElement.querySelector('.within');
  const ratio = contrast(colour, track ? rgba(getComputedStyle(track).fill) : behind(mark));
  if (ratio < 3) faint.push(mark.getAttribute('class') + ' ' + ratio.toFixed(2));
}
return [...new Set(faint)];
