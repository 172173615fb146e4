// What the page knows, and how it asks for more. Everything else draws from here.

export const state = {
  runs: new Map(), // id -> row of the list
  selected: [], // ids, in the order of the list
  details: new Map(), // id -> records and stream
  steps: new Map(), // id -> logged steps of the shown batch
  batch: 1,
  last: 1, // the last batch of the selection
  newest: 1, // the batch at hand of what is learning now; the last one where nothing is
  follow: true,
  view: { turn: -0.62, tilt: 0.46 },
  folder: "",
  scanning: true,
  offset: 0, // the server's clock minus ours, in seconds
};

export const age = (run) => Math.max(0, Date.now() / 1000 + state.offset - run.news);

export class Refused extends Error {}

export async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", credentials: "same-origin" });
  if (answer.status === 204) return null;
  if (answer.status === 401) throw new Refused("The token is no longer valid: open the address that was printed again.");
  if (answer.status === 404) return undefined;
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return answer.json();
}

let tag = "";

// The list: what changed since the last time. Gives whether anything did.
export async function askForRuns() {
  const found = await ask(`/api/runs?since=${encodeURIComponent(tag)}`);
  if (!found) return false;
  tag = found.tag;
  state.offset = found.now - Date.now() / 1000;
  state.folder = found.folder;
  state.scanning = found.scanning;
  if (found.whole) {
    const there = new Set(found.runs.map((run) => run.id));
    for (const id of state.runs.keys()) if (!there.has(id)) forget(id);
  }
  for (const id of found.gone) forget(id);
  for (const run of found.runs) state.runs.set(run.id, run);
  if (found.whole && found.scanning) tag = "";
  return true;
}

function forget(id) {
  state.runs.delete(id);
  state.details.delete(id);
  state.steps.delete(id);
  state.selected = state.selected.filter((one) => one !== id);
}

export const chosen = () => state.selected.map((id) => state.runs.get(id)).filter(Boolean);

// The record that a run shows at the slider's batch: that one, or its newest before it.
export function recordAt(id, batch = state.batch) {
  const records = state.details.get(id)?.records ?? [];
  let found = null;
  for (const record of records) if (record.i <= batch) found = record;
  return found;
}

// Records and steps of the selected runs, where their files changed. Gives whether anything was new.
export async function askForDetails() {
  const asked = await Promise.all(chosen().flatMap((run) => [askForRecords(run), askForSteps(run)]));
  return asked.some(Boolean);
}

const asking = new Set();

// One question at a time about the same thing.
async function once(path) {
  if (asking.has(path)) return null;
  asking.add(path);
  try {
    return await ask(path);
  } finally {
    asking.delete(path);
  }
}

async function askForRecords(run) {
  const known = state.details.get(run.id);
  if (known && known.stamp === run.stamps.records) return false;
  const from = known ? `generation=${known.generation}&after=${known.records.length}` : "";
  const found = await once(`/api/runs/${run.id}?${from}`);
  if (!found) return false;
  const records = found.after ? [...known.records.slice(0, found.after), ...found.records] : found.records;
  state.details.set(run.id, { ...found, records, stamp: run.stamps.records });
  return true;
}

async function askForSteps(run) {
  const known = state.steps.get(run.id);
  if (known && known.stamp === run.stamps.events && known.i === state.batch) return false;
  const i = state.batch;
  const found = await once(`/api/runs/${run.id}/steps?i=${i}`);
  if (!found || i !== state.batch) return false;
  state.steps.set(run.id, { ...found, stamp: run.stamps.events });
  return true;
}

// How far the slider goes, and where it stands when it follows. Gives whether that moved.
export function measure() {
  const runs = chosen(), end = (run) => Math.max(run.done, run.step ? run.step.i : 0, 1);
  const last = Math.max(1, ...runs.map(end));
  const now = runs.filter((run) => run.status === "learning").map(end);
  state.newest = now.length ? Math.max(...now) : last;
  const batch = state.follow ? state.newest : Math.min(state.batch, last);
  const moved = last !== state.last || batch !== state.batch;
  state.last = last;
  state.batch = batch;
  return moved;
}
