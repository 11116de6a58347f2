const wrong = [];
const say = (what, element) => wrong.push(what + ': ' + element.outerHTML.slice(0, 120));
for (const it of document.querySelectorAll('input:not([type=hidden]), select, textarea'))
  if (!it.labels.length && !it.ariaLabel) say('no label', it);
for (const it of document.querySelectorAll('a[href], button')) if (!it.textContent.trim() && !it.ariaLabel) say('no text', it);
for (const it of document.querySelectorAll('table')) if (!it.caption) say('no caption', it);
for (const it of document.querySelectorAll('th')) if (!it.scope) say('no scope', it);
for (const it of document.querySelectorAll('svg')) {
  if (it.getAttribute('aria-hidden') === 'true') continue;
  if (it.getAttribute('role') !== 'img' || !it.querySelector('title') || !it.querySelector('desc')) say('no title', it);
}
const ids = [...document.querySelectorAll('[id]')].map((it) => it.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push('twice: ' + id);
for (const it of document.querySelectorAll('[style], [onclick], style, script:not([src])')) say('inline', it);
if (!document.title || document.documentElement.lang !== 'en' || document.querySelectorAll('h1').length !== 1) wrong.push('title, lang or h1');
return wrong;
