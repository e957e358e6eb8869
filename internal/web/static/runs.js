// The list of runs.
import { duration, el, isOver, json, moment, name, stateOf, update } from './dom.js';

const states = ['queued', 'running', 'suspended', 'set aside', 'succeeded', 'failed', 'stopped'];

export function runs(main, parameters) {
  const array = parameters.get('array');
  const title = array ? 'Cases of array ' + array : 'Runs';
  const table = el('div', { 'aria-busy': 'true' });
  const pages = el('p', { class: 'pages' });
  main.append(el('h1', {}, array ? 'Cases of array ' : 'Runs', array ? name(array) : ''), array ? el('p', {}, el('a', { href: '#/arrays/' + encodeURIComponent(array) }, 'Grid of its cases')) : '', filters(parameters), table, pages);
  return {
    title,
    async refresh() {
      const list = await json('api/runs?' + parameters);
      update(table, el('div', {}, list.runs.length ? tableOf(list.runs) : el('p', {}, empty(parameters))));
      table.removeAttribute('aria-busy');
      update(pages, pagesOf(parameters, list.next));
      return list.runs.some((r) => !isOver(r.state)) ? 2000 : 10000;
    },
  };
}

function empty(parameters) {
  return [...parameters].some(([, value]) => value) ? 'No run passes these filters.' : 'No run is there that is not over. Begin one by `bee run`, or show all runs.';
}

function address(parameters, changes) {
  const changedOnes = new URLSearchParams(parameters);
  for (const [key, value] of Object.entries(changes)) {
    if (value) changedOnes.set(key, value);
    else changedOnes.delete(key);
  }
  return '#/?' + changedOnes;
}

// filters are in the address, so that a list can be kept.
function filters(parameters) {
  const field = (label, input) => el('label', {}, label, input);
  const option = (value, text) => el('option', { value, selected: parameters.get('state') === value }, text);
  const find = el('input', { type: 'search', name: 'find', value: parameters.get('find') ?? '', maxlength: '200' });
  const state = el('select', { name: 'state' }, option('', 'any'), ...states.map((s) => option(s, s)));
  const site = el('input', { name: 'site', value: parameters.get('site') ?? '', maxlength: '200' });
  const label = el('input', { name: 'label', value: parameters.get('label') ?? '', maxlength: '200' });
  const all = el('input', { type: 'checkbox', name: 'all', checked: !!parameters.get('all') });
  const submit = (event) => {
    event?.preventDefault();
    location.hash = address(parameters, { find: find.value, state: state.value, site: site.value, label: label.value, all: all.checked ? '1' : '', until: '' });
  };
  for (const input of [state, all]) input.addEventListener('change', () => submit());
  return el('form', { class: 'filters', role: 'search', 'aria-label': 'Filters', onsubmit: submit },
    field('Name or id ', find), field('State ', state), field('Site ', site), field('Label ', label),
    el('label', { class: 'check' }, all, ' also runs that are over'), el('button', {}, 'Show'));
}

const columns = ['Run', 'State', 'Site', 'Nodes', 'Created', 'Took', 'Progress', 'Why'];

function tableOf(list) {
  return el('table', { class: 'list', role: 'table' },
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, ...columns.map((c) => el('th', { scope: 'col', role: 'columnheader' }, c)))),
    el('tbody', { role: 'rowgroup' }, ...list.map(row)));
}

function row(r) {
  const to = r.folded ? '#/?array=' + encodeURIComponent(r.id) : '#/runs/' + encodeURIComponent(r.id);
  const took = ((r.ended ? new Date(r.ended) : new Date()) - new Date(r.created)) / 1000;
  const site = r.attempts.at(-1)?.site;
  const p = r.job_progress;
  const progress = el('td', { role: 'cell', 'data-label': 'Progress' }, r.doing ?? '');
  if (p) progress.append(' ', el('progress', { max: '100', value: p.percent, 'aria-label': 'progress of the job' }), p.left_seconds ? ' about ' + duration(p.left_seconds) + ' left' : '');
  const cell = (label, ...content) => el('td', { role: 'cell', 'data-label': label, class: content.every((c) => c === '' || c == null) ? 'none' : null }, ...content);
  return el('tr', { role: 'row' },
    el('th', { scope: 'row', role: 'rowheader' }, el('a', { href: to }, name(r.name)), ' ', el('small', {}, r.folded ? 'array ' : '', name(r.id))),
    cell('State', stateOf(r.state), r.exit_code ? ', exit code ' + r.exit_code : ''), cell('Site', site ? name(site) : ''), cell('Nodes', r.nodes || ''), cell('Created', moment(r.created)),
    cell('Took', duration(took)), progress.textContent ? progress : cell('Progress', ''), cell('Why', r.why ? name(r.why) : ''));
}

function pagesOf(parameters, next) {
  return el('p', {},
    parameters.get('until') ? el('a', { href: address(parameters, { until: '' }) }, parameters.get('array') ? 'First cases' : 'Newest runs') : '', ' ',
    next ? el('a', { href: address(parameters, { until: next }) }, parameters.get('array') ? 'Further cases' : 'Older runs') : '');
}
