/**
 * The provider's half of a Caisson link: tools of one's own, beside caisson.mjs.
 *
 * A provider is a program that does effects for runtimes it never meets.  The broker has decided
 * each call before it comes here: which action, on which resource.  The provider does exactly
 * that:
 *
 *     import { Fail, serve } from './caisson_provider.mjs';
 *
 *     await serve({
 *       'notes.get': async (call) => {
 *         const name = call.resource('name').join('/'); // refused, unless it was decided
 *         if (!notes.has(name)) throw new Fail('not_found', 'there is no such note');
 *         return { text: notes.get(name) };
 *       },
 *     }, { concurrency: 4 });
 *
 * What a handler returns, or its promise, is the call's output.  `Fail` fails the call with its
 * code; whatever else is thrown does too, with `tool_execution_failed`, and only the place where
 * it was made is printed, as its text may hold what the call has read.  Up to `concurrency`
 * handlers run at once, which must not be less than the configuration's.  What they print goes
 * to the log of the broker (standard error) or nowhere.
 *
 * Node.js 18 or newer; `profile: jit`.  Copy this file and caisson.mjs beside your program.
 */

import { Socket } from 'node:net';
import { bounded, Fail, frame, FRAME_MAX, must, PROTOCOL, ProtocolError, unpack }
  from './caisson.mjs';

export { Fail, ProtocolError };

const isText = (v) => typeof v === 'string';
const isMap = (v) => typeof v === 'object' && v !== null && Object.getPrototypeOf(v) === null;
const isCount = (v) => Number.isSafeInteger(v) && v >= 0;
const isPath = (v) => Array.isArray(v) && v.every(isText);
// What each frame has; one that has anything else ends the link.
const CALL = { call: isText, tool: isText, arguments: isMap, action: isText, namespace: isText,
  path: isPath, timeoutMs: isCount };
const CANCEL = { call: isText };
const END_GRACE_MS = 100; // for handlers that see the cancellation, once the link is closed

/** The map in `fields`, if it is exactly of this shape. */
function only(fields, shape) {
  must(Array.isArray(fields) && fields.length === 1 && isMap(fields[0]), 'not one map of fields');
  const [p] = fields;
  must(Object.keys(p).length === Object.keys(shape).length, 'fields are missing, or too many');
  for (const [name, is] of Object.entries(shape)) must(is(p[name]), `${name} does not fit`);
  return p;
}

/**
 * One call: what was decided, and what it was asked with.
 *
 *   tool, arguments    as the runtime said them; they fit the declared schema
 *   action             what may be done
 *   namespace, path    with what: an array of segments, empty for the root
 *   deadline           an instant of performance.now(), when nobody waits any more
 *   cancelled          AbortSignal: nobody waits any more; return soon
 */
class Call {
  constructor(p, cancelled) {
    Object.assign(this, { id: p.call, tool: p.tool, arguments: p.arguments, action: p.action,
      namespace: p.namespace, path: p.path, cancelled,
      deadline: performance.now() + p.timeoutMs });
  }

  /**
   * The decided path, if the argument, behind `prefix`, names it and nothing else.  An argument
   * is data of the runtime's: whoever acts on it instead of the path needs this, or acts on what
   * nobody decided.
   */
  resource(argument, prefix = []) {
    const named = this.arguments[argument] ?? '';
    const segments = isText(named) ? named.split('/').filter((s) => s !== '') : [null];
    const all = [...prefix, ...segments];
    if (all.length !== this.path.length || all.some((s, i) => s !== this.path[i]))
      throw new Fail('invalid_tool_arguments', `${argument}: it is not what was decided`);
    return this.path;
  }
}

class Link {
  #socket; #data = Buffer.alloc(0); #ready = false; #ended = false;
  #open = new Map(); // id of a call -> AbortController
  #waiting = []; #running = 0;

  constructor(fd, tools, concurrency, onEnd) {
    Object.assign(this, { tools, concurrency, onEnd });
    this.#socket = new Socket({ fd, readable: true, writable: true });
    this.#socket.on('data', (chunk) => this.#receive(chunk));
    this.#socket.on('error', () => {}); // reset, or closed while we wrote: 'close' follows
    this.#socket.on('close', () => this.#end(null));
  }

  send(message) {
    const data = frame(message);
    if (!this.#ended) this.#socket.write(data);
  }

  #end(fault) {
    if (this.#ended) return;
    this.#ended = true;
    this.#socket.destroy();
    this.#waiting.length = 0;
    for (const cancel of this.#open.values()) cancel.abort();
    this.onEnd(fault);
  }

  #receive(chunk) {
    this.#data = Buffer.concat([this.#data, chunk]);
    try {
      while (!this.#ended && this.#data.length >= 4) {
        const end = 4 + this.#data.readUInt32BE();
        must(end > 4 && end <= 4 + FRAME_MAX, 'frame is empty or too long');
        if (this.#data.length < end) return;
        const message = unpack(this.#data.subarray(4, end));
        this.#data = this.#data.subarray(end);
        must(Array.isArray(message), 'no frame');
        if (this.#ready) this.#handle(message);
        else this.#handleHello(message);
      }
    } catch (e) {
      this.#end(e);
    }
  }

  #handleHello([kind, msgid, error, reply]) {
    must(kind === 1 && msgid === 1 && error === null && isMap(reply), 'no answer to hello');
    must(reply.protocol === PROTOCOL, 'the broker speaks another protocol');
    this.#ready = true;
  }

  #handle(message) {
    const [kind, msgid, method, fields] = message[0] === 2 ? [2, null, ...message.slice(1)] : message;
    must(message.length === (kind === 2 ? 3 : 4), 'no frame');
    if (kind === 0 && method === 'tool.call') {
      const p = only(fields, CALL), cancel = new AbortController();
      must(isCount(msgid) && !this.#open.has(p.call), 'a call that is open already');
      this.#open.set(p.call, cancel);
      this.#waiting.push([msgid, new Call(p, cancel.signal)]);
      this.#next();
    } else {
      must(kind === 2 && method === 'tool.cancel', 'unknown method');
      this.#open.get(only(fields, CANCEL).call)?.abort(); // else its answer is on its way
    }
  }

  #next() {
    while (this.#running < this.concurrency && this.#waiting.length > 0) {
      const [msgid, call] = this.#waiting.shift();
      this.#running++;
      resultOf(this.tools.get(call.tool), call).then((result) => {
        this.#running--;
        this.#open.delete(call.id);
        this.send([1, msgid, null, { callId: call.id, ...result }]);
        this.#next();
      });
    }
  }
}

/** Never rejects. */
async function resultOf(handler, call) {
  let error;
  try {
    if (handler === undefined) throw new Fail('tool_unavailable', 'there is no such tool');
    const output = (await handler(call)) ?? null;
    try {
      return { status: 'succeeded', ...bounded({ output }) };
    } catch {
      throw new Fail('invalid_tool_result', 'the output cannot be sent');
    }
  } catch (e) {
    error = e instanceof Fail
      ? { code: e.code, message: e.message, retryable: e.retryable }
      : { code: 'tool_execution_failed', message: nameOf(e), retryable: false };
    if (!(e instanceof Fail)) console.error(`${call.tool}: ${nameOf(e)}${placesOf(e)}`);
  }
  try {
    return { status: 'failed', error: bounded({ error: bounded(error) }).error };
  } catch {
    return { status: 'failed', error: { code: 'tool_execution_failed',
      message: 'its error cannot be sent', retryable: false } };
  }
}

const nameOf = (e) => (e instanceof Error ? e.constructor.name : typeof e);

/** Where it was made: its stack without its text. */
function placesOf(e) {
  const lines = e instanceof Error ? String(e.stack).split('\n') : [];
  return lines.filter((line) => /^ {4}at .*:\d+:\d+\)?$/.test(line)).map((l) => `\n${l}`).join('');
}

/**
 * Answers calls of `tools`, an object of handlers by name.  Resolves when the broker closes the
 * link, and rejects if what it sent is not of the protocol; what is left of the program then
 * ends soon.
 */
export function serve(tools, { concurrency = 32, name = 'caisson_provider.mjs' } = {}) {
  return new Promise((resolve, reject) => {
    must(/^\d+$/.test(process.env.CAISSON_LINK_FD), 'CAISSON_LINK_FD names no descriptor');
    const fd = Number(process.env.CAISSON_LINK_FD);
    delete process.env.CAISSON_LINK_FD;
    const link = new Link(fd, new Map(Object.entries(tools)), concurrency, (fault) => {
      setTimeout(() => process.exit(), END_GRACE_MS).unref();
      if (fault !== null) process.exitCode = 1;
      (fault === null ? resolve : reject)(fault ?? undefined);
    });
    link.send([0, 1, 'hello', [{ protocol: PROTOCOL, name }]]);
  });
}
