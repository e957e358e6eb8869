// Two runs side by side, as `bee compare` shows them.
import { el, json, name, stateOf, update } from './dom.js';

export function compare(main, first, second) {
  const body = el('div', { 'aria-busy': 'true' });
  main.append(el('h1', {}, 'Two runs'), body);
  return {
    title: `runs ${first} and ${second}`,
    async refresh() {
      const both = await json('api/compare?' + new URLSearchParams({ first, second }));
      update(body, el('div', {}, tableOf(both), both.job.length ? '' : el('p', {}, 'Their jobs are the same.')));
      body.removeAttribute('aria-busy');
      return 10000;
    },
  };
}

function tableOf(both) {
  const head = (r) => el('th', { scope: 'col' }, el('a', { href: '#/runs/' + encodeURIComponent(r.id) }, name(r.name)), ' ', el('small', {}, name(r.id)), el('br'), stateOf(r.state));
  const row = (kind) => (p) => el('tr', {}, el('th', { scope: 'row' }, kind, name(p.name)), ...p.values.map((v) => el('td', {}, name(v || '–'))));
  return el('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Comparison' },
    el('table', {},
      el('thead', {}, el('tr', {}, el('td', {}), ...both.runs.map(head))),
      el('tbody', {}, ...both.job.map(row('job: ')), ...both.results.map(row('')))));
}

// compareForm asks for the run to compare with.
export function compareForm(id) {
  const other = el('input', { name: 'with', required: true, maxlength: '200', size: '12' });
  return el('form', { class: 'filters', 'aria-label': 'Compare', onsubmit: (event) => {
    event.preventDefault();
    location.hash = '#/compare/' + encodeURIComponent(id) + '/' + encodeURIComponent(other.value.trim());
  } }, el('label', {}, 'Id or name of another run ', other), el('button', {}, 'Compare'));
}
