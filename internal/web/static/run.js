// One run: the parts of `bee report`, with actions, a log that follows and the outputs.
import { actions } from './actions.js';
import { compareForm } from './compare.js';
import { el, isOver, json, request, update } from './dom.js';
import { log } from './log.js';
import { outputs } from './outputs.js';

export function run(main, id, changed) {
  const path = 'api/runs/' + encodeURIComponent(id);
  const part = el('div', { class: 'part' });
  const acts = actions(path, id, changed);
  let ofLog, ofOutputs;
  return {
    title: 'run ' + id,
    async refresh() {
      const [facts, text, list] = await Promise.all([json(path), request(path + '/page').then((r) => r.text()), json(path + '/actions')]);
      // Scripts of a document that is parsed so do not run, and this one has none.
      update(part, new DOMParser().parseFromString(text, 'text/html').body);
      if (!ofLog) {
        ofLog = log(path, facts);
        ofOutputs = outputs(path);
        main.append(acts.element, part, ofLog.element, ofOutputs.element, compareForm(id));
      }
      acts.show(list); // with the part, so that nobody is offered what was for an earlier attempt
      ofLog.facts(facts);
      await ofOutputs.refresh(facts);
      return isOver(facts.state) ? 30000 : 2000;
    },
    end: () => {
      acts.end();
      ofLog?.end();
    },
  };
}
