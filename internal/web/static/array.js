// An array: a grid of its cases as `bee report` writes it, by parameters and a metric of the user's choice.
import { el, isOver, json, update } from './dom.js';

export function array(main, id, parameters) {
  const path = 'api/arrays/' + encodeURIComponent(id);
  const choice = el('div', {});
  const links = el('div', {});
  const part = el('div', { class: 'part', 'aria-busy': 'true' });
  main.append(part, choice, links);
  return {
    title: 'array ' + id,
    async refresh() {
      const began = Date.now();
      const a = await json(path + '?' + parameters);
      const took = Date.now() - began;
      // Scripts of a document that is parsed so do not run, and this one has none.
      update(part, new DOMParser().parseFromString(a.page, 'text/html').body);
      part.removeAttribute('aria-busy');
      if (!choice.contains(document.activeElement)) choice.replaceChildren(form(id, a));
      update(links, el('div', {}, el('p', {}, el('a', { href: '#/?all=1&array=' + encodeURIComponent(a.id) }, 'List of its cases')),
        a.first ? el('p', {}, `The grid has the first ${a.first} cases. `, el('code', {}, 'bee report ' + a.id), ' has all.') : ''));
      return Math.max(isOver(a.state) ? 30000 : 3000, 10 * took);
    },
  };
}

// form chooses what the grid is made by. The choice is in the address.
function form(id, a) {
  const select = (list, chosen, none) => el('select', {}, ...(none ? [el('option', { value: '' }, none)] : []), ...list.map((p) => el('option', { value: p, selected: p === chosen }, p)));
  const across = select(a.parameters, a.across);
  const down = select(a.parameters, a.down, 'none');
  const metric = select(a.metrics, a.metric);
  const show = () => (location.hash = '#/arrays/' + encodeURIComponent(id) + '?' + new URLSearchParams({ by: [across.value, down.value].filter((p) => p !== '').join(','), metric: metric.value }));
  for (const s of [across, down, metric]) s.addEventListener('change', show);
  return el('form', { class: 'filters', 'aria-label': 'Grid', onsubmit: (event) => { event.preventDefault(); show(); } },
    a.parameters.length ? el('label', {}, 'Across ', across) : '', a.parameters.length > 1 ? el('label', {}, 'Down ', down) : '', a.metrics.length ? el('label', {}, 'Metric ', metric) : '');
}
