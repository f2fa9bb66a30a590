/**
 * The standard loop of a turn: a driver decides, the loop does everything else.
 *
 *     import { serve, call, complete } from './caisson_loop.mjs';
 *
 *     serve((turn) => ({                     // a turn begins; may return a promise
 *       async decide(given) {
 *         if (given.type === 'start') return call('files.read', { path: turn.message });
 *         return complete(given.result.status); // { tool, status, output or error }
 *       },
 *       async close(status) {},              // may be left out; how the turn ended
 *     }));
 *
 * A decision is an object, such as a model writes; the functions below make valid ones.
 *
 *     { type: 'tool_call', call: { tool, arguments, idempotencyKey? }, step? }
 *     { type: 'complete', output, metadata? }
 *     { type: 'fail', error: { code, message, retryable?, details? }, metadata? }
 *     { type: 'escalate', reason, metadata? }
 *
 * - Anything else fails the turn with `invalid_driver_decision`, and so does a step behind the
 *   loop's own, which counts decisions from 0.  A step ahead of it is passed on as claimed.
 * - A call that is refused, for a budget too, is a result like any other.  But the loop asks for
 *   as many decisions as the turn has steps; then the turn fails with `step_limit_exceeded`.
 * - An error of the driver's fails the turn with `driver_failed`; its text goes to standard error
 *   and nowhere else.
 * - Once the turn drains, no decision is asked for.  One that is being made counts if it ends the
 *   turn; its call is left to the broker to refuse.  Then the turn ends as cancelled.
 * - A call of `sharedos.escalate` asks a person, too, and may say what for.  It escalates the turn
 *   once the broker has taken it, if that tool is offered; else it is a call like any other.
 * - A decision is left behind when the turn is over.  `close` is waited for, for at most `closeMs`
 *   and half of what the turn has left, unless it never yields.
 *
 * Copy this file and caisson.mjs beside your program.
 */
import { run as serveTurns, bounded, must, Cancelled, Outcome, ProtocolError, Refused, ToolFailed }
  from './caisson.mjs';

export const CLOSE_MS = 1000, ESCALATE = 'sharedos.escalate';
// How a driver is told that its turn ended.
const STATUS = { complete: 'succeeded', fail: 'failed', escalate: 'escalated' };
// What the maps of a decision must have, and what they may have.
const DECISIONS = new Map([
  ['tool_call', [['type', 'call'], ['step']]], ['complete', [['type', 'output'], ['metadata']]],
  ['fail', [['type', 'error'], ['metadata']]], ['escalate', [['type', 'reason'], ['metadata']]],
]);
const CALL = [['tool', 'arguments'], ['idempotencyKey']];
const ERROR = [['code', 'message'], ['retryable', 'details']];

/** Decides to make a call. */
export const call = (tool, args, { step, idempotencyKey } = {}) =>
  ({ type: 'tool_call', call: { tool, arguments: args, idempotencyKey }, step });
/** Decides that the turn is done. */
export const complete = (output = null) => ({ type: 'complete', output });
/** Decides that the turn has failed. */
export const fail = (code, message = '', retryable = false) =>
  ({ type: 'fail', error: { code, message, retryable } });
/** Decides that a person has to decide. */
export const escalate = (reason) => ({ type: 'escalate', reason });

class DriverFailed extends Error {} // its cause is what the driver threw

/** The members of the map `v`, which has those of `shape`; what is undefined is none. */
function members(v, [needed, allowed]) {
  const isObject = typeof v === 'object' && v !== null
    && [null, Object.prototype].includes(Object.getPrototypeOf(v));
  must(isObject, 'not a map');
  const found = Object.entries(v).filter(([, item]) => item !== undefined);
  const names = found.map(([name]) => name), all = [...needed, ...allowed];
  must(needed.every((name) => names.includes(name)) && names.every((name) => all.includes(name)),
    'members are missing, or too many');
  return Object.fromEntries(found);
}

/** An Outcome, or { tool, args, claims }; ProtocolError if it is no decision at step `at`. */
function read(decision, at) {
  const shape = DECISIONS.get(decision?.type);
  must(shape !== undefined, 'no such decision');
  const { type, ...rest } = members(decision, shape);
  if (type !== 'tool_call') {
    if (type === 'fail') rest.error = bounded(members(rest.error, ERROR));
    return new Outcome(type, rest);
  }
  const { tool, arguments: args, idempotencyKey } = bounded(members(rest.call, CALL));
  const { step = at } = bounded(rest.step === undefined ? {} : { step: rest.step });
  must(step >= at, "step is behind the loop's own");
  return { tool, args, claims: { step, idempotencyKey } };
}

/** What `promise` of the driver's gives, unless the turn is over first. */
async function unlessOver(turn, promise) {
  let onAbort;
  const over = new Promise((resolve) => { onAbort = resolve; });
  turn.cancelled.addEventListener('abort', onAbort);
  try {
    return await Promise.race([over, promise]);
  } catch (cause) {
    throw new DriverFailed('', { cause });
  } finally {
    turn.cancelled.removeEventListener('abort', onAbort);
    turn.cancelled.throwIfAborted();
  }
}

/** Makes a call; the result that the driver is given. */
async function resultOf(turn, { tool, args, claims }) {
  try {
    return { tool, status: 'succeeded', output: await turn.call(tool, args, claims) };
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    const { code, message, retryable, details } = e;
    const error = { code, message, retryable, ...(details !== null && { details }) };
    return { tool, status: e instanceof ToolFailed ? 'failed' : 'denied', error };
  }
}

const failed = (code, message, more) => new Outcome('fail', { error: { code, message, ...more } });

async function steps(turn, decide) {
  let given = { type: 'start' };
  for (let at = 0; at < turn.limits.maxSteps && !turn.draining.aborted; at++) {
    const decision = read(await unlessOver(turn, decide(given)), at);
    if (decision instanceof Outcome) return decision;
    const result = await resultOf(turn, decision);
    const asked = result.tool === ESCALATE && turn.tools.has(ESCALATE);
    if (asked && result.status === 'succeeded')
      return new Outcome('escalate', { reason: 'asked' }); // the ask itself is with the broker
    given = { type: 'tool_result', result };
  }
  if (turn.draining.aborted) throw new Cancelled('the time was up');
  return failed('step_limit_exceeded', 'the loop has used its steps');
}

/** The outcome of an error in the loop, and how the driver is told. */
function endingOf(turn, e) {
  if (turn.cancelled.aborted || e instanceof Cancelled)
    return [failed('turn_cancelled', (turn.cancelled.reason ?? e).message), 'cancelled'];
  if (e instanceof ProtocolError)
    return [failed('invalid_driver_decision', e.message), 'failed'];
  if (!(e instanceof DriverFailed)) throw e;
  console.error(e.cause);
  return [failed('driver_failed', 'the driver failed', { retryable: true }), 'failed'];
}

/** Closes what comes of `making`, and leaves it behind after `ms`. */
async function close(making, status, ms) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => {
      console.error('caisson_loop: close() takes too long and is left behind');
      resolve();
    }, ms);
  });
  const closed = making.then((driver) => driver?.close?.(status), () => {}); // none: that was told
  await Promise.race([closed.catch((e) => console.error(e)), late]);
  clearTimeout(timer);
}

/** One turn, decided by what `makeDriver(turn)` gives; its outcome, for run() of caisson.mjs. */
export async function run(turn, makeDriver, closeMs = CLOSE_MS) {
  const making = (async () => makeDriver(turn))();
  let outcome, status;
  try {
    const driver = await unlessOver(turn, making);
    outcome = await steps(turn, async (given) => driver.decide(given));
    status = STATUS[outcome.status];
  } catch (e) {
    [outcome, status] = endingOf(turn, e);
  }
  // Unless the turn is over already: the close must not cost the outcome.
  const left = turn.cancelled.aborted ? Infinity : (turn.limits.deadline - performance.now()) / 2;
  await close(making, status, Math.max(Math.min(closeMs, left), 0));
  return outcome;
}

/** Answers every turn with a driver of its own until the broker closes the link. */
export function serve(makeDriver, { closeMs = CLOSE_MS, name = 'caisson_loop.mjs' } = {}) {
  return serveTurns((turn) => run(turn, makeDriver, closeMs), { name });
}
