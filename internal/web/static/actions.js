// What its user can ask of a run. An action first shows what it will do.
import { Refused, el, json, shown, update } from './dom.js';

const titles = { stop: 'Stop', checkpoint: 'Checkpoint', move: 'Move', resume: 'Resume', again: 'Run again' };

// actTime is how long a request may take: a checkpoint of virtual machines is written meanwhile.
const actTime = 620000;

// commands shows what is between backquotes as code.
const commands = (text) => text.split('`').map((part, i) => (i % 2 ? el('code', {}, part) : shown(part)));

const line = (text) => el('span', { class: 'line' }, ...commands(text.charAt(0).toUpperCase() + text.slice(1).replace(/\.?$/, '.')));

export function actions(path, id, changed) {
  const buttons = el('p', { class: 'actions' });
  const status = el('p', { role: 'status', class: 'note', tabindex: '-1' });
  const title = el('h2', { id: 'action-title' });
  const does = el('p', { id: 'action-does' });
  const command = el('code', {});
  const site = el('select', { name: 'to', onchange: () => showCommand() });
  const choice = el('label', {}, 'Site ', site);
  const wrong = el('p', { role: 'alert', class: 'problem', hidden: true });
  const wait = el('p', { role: 'status', class: 'note' });
  const confirm = el('button', {});
  const cancel = el('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'Cancel');
  const form = el('form', { onsubmit: (event) => { event.preventDefault(); act(); } },
    title, does, choice, el('p', { class: 'note' }, 'The same as ', command), wrong, wait, el('p', { class: 'actions' }, confirm, ' ', cancel));
  const dialog = el('dialog', { 'aria-labelledby': 'action-title', 'aria-describedby': 'action-does' }, form);
  const element = el('section', { 'aria-label': 'Actions' }, buttons, status, dialog);
  let list = []; // the actions that there are now
  let asked; // that of the dialog, with the attempt that was shown
  let waits = false; // for the answer to a request

  function showCommand() {
    const to = asked.site && site.value ? ' --site ' + site.value : '';
    command.textContent = shown(asked.name === 'again' ? 'bee run -d --again ' + id : `bee ${asked.name}${to} ${id}`);
  }

  function showButtons() {
    update(buttons, el('p', {}, ...list.flatMap((a) => [el('button', { type: 'button', 'aria-haspopup': 'dialog', disabled: waits, 'data-action': a.name }, titles[a.name] ?? a.name), ' '])));
  }

  // fill shows an action in the dialog. A site that was chosen stays, if it still can be.
  function fill(action) {
    asked = action;
    const chosen = site.value;
    title.textContent = titles[action.name];
    does.textContent = shown(action.does);
    choice.hidden = !action.site;
    site.replaceChildren(...(action.site === 'may' ? [el('option', { value: '' }, 'any')] : []), ...(action.sites ?? []).map((s) => el('option', { value: s, selected: s === chosen }, s)));
    showCommand();
  }

  function ask(name) {
    const action = list.find((a) => a.name === name);
    if (!action || waits) return;
    site.replaceChildren();
    fill(action);
    confirm.textContent = titles[name];
    confirm.hidden = false;
    fail('');
    dialog.showModal();
  }

  function fail(text) {
    wrong.replaceChildren(...commands(text));
    wrong.hidden = !text;
  }

  // compare reports in an open dialog that the run has changed since it was opened.
  function compare() {
    if (!dialog.open || waits) return;
    const now = list.find((a) => a.name === asked.name && a.attempt === asked.attempt);
    if (now) {
      if (JSON.stringify(now) !== JSON.stringify(asked)) fill(now);
      return;
    }
    confirm.hidden = true; // it would be refused
    if (wrong.hidden) fail('The run has changed meanwhile, and this is no longer asked of it. Close this, and choose again.');
    cancel.focus();
  }

  // waiting keeps the buttons from use until an answer has come. They stay, with their focus.
  function waiting(text) {
    waits = confirm.disabled = text !== '';
    for (const button of buttons.children) button.disabled = waits;
    wait.textContent = text;
    status.textContent = text;
  }

  async function act() {
    if (waits || confirm.hidden) return;
    const name = titles[asked.name];
    fail('');
    waiting(name + ': waiting for the answer …');
    try {
      const query = new URLSearchParams({ attempt: asked.attempt, site: asked.site ? site.value : '' });
      const done = await json(`${path}/actions/${asked.name}?` + query, { method: 'POST', signal: AbortSignal.timeout(actTime) });
      waiting('');
      const seen = dialog.open;
      dialog.close();
      status.replaceChildren(name + ': asked. ', ...done.printed.map(line),
        done.run ? el('a', { href: '#/runs/' + encodeURIComponent(done.run) }, 'The new run ' + done.run) : '');
      if (seen) status.focus(); // the button may be gone
    } catch (error) {
      const text = error.told || error instanceof Refused
        ? 'Not done: ' + error.message + '. ' + (error.remedy ?? '')
        : 'No answer came, and it may be done or not. Look at the state of the run before you ask again.';
      waiting('');
      if (dialog.open) fail(text);
      else status.replaceChildren(...commands(name + ': ' + text)); // its user has closed it
    }
    changed();
  }

  buttons.addEventListener('click', (event) => {
    const name = event.target.closest('button')?.dataset.action;
    if (name) ask(name);
  });
  return {
    element,
    show(actions) {
      list = actions;
      showButtons();
      compare();
    },
    end: () => dialog.close(),
  };
}
