// Numbers and times in words.

const NONE = "—";

export const percent = (share) => (share === null || share === undefined ? NONE : (100 * share).toFixed(1).replace("-", "−"));

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e5 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replaceAll("-", "−").replace("e+", "e");
}

export function whole(value) {
  if (value === null || value === undefined) return NONE;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 1) return "under 1 s";
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} d`;
}

export const many = (n, one, more = `${one}s`) => `${n} ${n === 1 ? one : more}`;

export const runName = (run) => `${run.strategy} ${run.run}`;

export function statusWord(run, age) {
  if (run.problem) return "cannot be read";
  if (run.status === "learning") return age > 120 ? `learning, no news for ${duration(age)}` : "learning";
  if (run.status === "quiet") return `no news for ${duration(age)}`;
  if (run.status === "stopped") return run.was_held ? "stopped" : `no news for ${duration(age)}`;
  return "finished";
}

export function statusReason(run, age) {
  if (run.problem) return run.problem;
  if (run.status === "stopped" && run.was_held) return `Its process ended before the last batch. Last news ${duration(age)} ago.`;
  if (run.status === "stopped" || run.status === "quiet")
    return `No new event or record for ${duration(age)}, and no process of this machine holds its lock.`;
  if (run.status === "learning") return run.held ? "A process of this machine is learning it." : "Its files are being written.";
  return `All ${many(run.planned, "batch", "batches")} learnt.`;
}

export function position(run) {
  const of = run.planned ?? "?";
  if (run.status === "finished") return `${run.done} of ${of}`;
  const step = run.step;
  if (!step) return `${run.done} of ${of}${run.status === "learning" ? ", testing or preparing" : ""}`;
  const epoch = step.epochs ? `, epoch ${step.epoch} of ${step.epochs}` : `, epoch ${step.epoch}`;
  return `B${sub(step.i)} of ${of}${epoch}`;
}

const LOW = "₀₁₂₃₄₅₆₇₈₉", HIGH = "⁰¹²³⁴⁵⁶⁷⁸⁹";
export const ten = (power) => (power === 0 ? "1" : `10${power < 0 ? "⁻" : ""}${[...String(Math.abs(power))].map((digit) => HIGH[digit]).join("")}`);
export const sub = (n) => [...String(n)].map((digit) => LOW[digit]).join("");

export function share(run) {
  if (!run.planned) return 0;
  const step = run.step && run.step.steps ? Math.min(1, run.step.step / run.step.steps) : 0;
  return Math.min(1, (run.done + (run.status === "finished" ? 0 : step)) / run.planned);
}
