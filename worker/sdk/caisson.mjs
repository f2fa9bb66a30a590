/**
 * The runtime's half of a Caisson link, in one file without dependencies.
 *
 * A runtime is a program with one descriptor of Caisson's.  It is asked for one turn at a
 * time, and everything it wants done it asks for:
 *
 *     import { run } from './caisson.mjs';
 *
 *     run(async (turn) => {
 *       const { text } = await turn.call('files.read', { path: 'docs/a.txt' });
 *       return { length: text.length };
 *     });
 *
 * What the function returns is the turn's output.  It may throw `Fail(code, message)` to
 * fail the turn or `Escalate(reason)` to ask a person; any other error fails it too, and
 * only its class is told.  A call that is refused rejects with `ToolDenied`, one that was
 * tried and failed with `ToolFailed`, both with a `code`.  Calls overlap: Promise.all().
 *
 * Values are null, booleans, numbers, BigInts, strings, Uint8Arrays, arrays and objects.  An
 * integer beyond 2^53 is a BigInt; a number that is no safe integer travels as a float.
 *
 * Copy this file beside your program.  Node.js 18 or newer; the link: docs/PROTOCOL.md.
 */
import { Socket } from 'node:net';

export const PROTOCOL = 4;
// Bounds of a frame, which would end the link: bytes, nesting, values; and of a value in it.
export const FRAME_MAX = 1 << 20, DEPTH_MAX = 32, NODES_MAX = 1 << 16;
const PAYLOAD_DEPTH_MAX = 24, PAYLOAD_NODES_MAX = 1 << 15;
// What a request carries: its kind, and the most bytes of it, packed; of text, as UTF-8.
const FIELDS = { tool: ['str', 256], type: ['str', 128], key: ['str', 128], code: ['str', 64],
  message: ['str', 4096], reason: ['str', 4096], idempotencyKey: ['str', 128], step: ['uint', 5],
  arguments: ['map', 256 << 10], metadata: ['map', 16 << 10], error: ['map', 69 << 10],
  data: [null, 64 << 10], value: [null, 16 << 10], output: [null, 768 << 10],
  details: [null, 64 << 10], retryable: ['bool', 1] };
const CHUNK_MAX = 64 << 10, END_GRACE_MS = 1000;

/** Whatever goes wrong between a runtime and its broker. */
export class CaissonError extends Error { get name() { return this.constructor.name; } }
export class ProtocolError extends CaissonError {} // not of the protocol, or unable to travel
export class LinkClosed extends CaissonError {} // the broker is gone
export class Cancelled extends CaissonError {} // the turn is over; the message is the cause
export class Refused extends CaissonError { // a request was refused as a whole
  constructor(error) {
    mustHave(error, { code: isText });
    const { code, message = '', retryable = false, details = null } = error;
    super(message);
    Object.assign(this, { code, retryable, details });
  }
}
export class ToolDenied extends Refused {} // the call was not allowed; nothing happened
export class ToolFailed extends Refused {} // the call was allowed and did not succeed
export class Fail extends Error { // thrown by a turn: it has failed
  constructor(code, message = '', retryable = false) {
    super(message);
    Object.assign(this, { code, retryable: Boolean(retryable) });
  }
}
export class Escalate extends Error {} // thrown by a turn: a person has to decide
export class Outcome { // returned by a turn instead of an output: its outcome, as it travels
  constructor(status, members) { Object.assign(this, { status, ...bounded(members) }); }
}

const isText = (v) => typeof v === 'string';
const isCount = (v) => Number.isSafeInteger(v) && v >= 0;
const isMap = (v) => typeof v === 'object' && v !== null && Object.getPrototypeOf(v) === null;

export const must = (condition, text) => { if (!condition) throw new ProtocolError(text); };

function mustHave(v, shape) { // the map `v`
  must(isMap(v), 'not a map');
  for (const [name, is] of Object.entries(shape)) must(is(v[name]), `${name} does not fit`);
  return v;
}

// ---- values: the canonical part of MessagePack -------------------------------------------

// kind: [first byte of so many numbers, count of them, code before others, widths, first number]
const KINDS = {
  nil: [0xc0, 1, 0, []], bool: [0xc2, 2, 0, []], float: [0, 0, 0xcb, [8]],
  uint: [0x00, 128, 0xcc, [1, 2, 4, 8]], int: [0xe0, 32, 0xd0, [1, 2, 4, 8], -32],
  str: [0xa0, 32, 0xd9, [1, 2, 4]], bin: [0, 0, 0xc4, [1, 2, 4]],
  array: [0x90, 16, 0xdc, [2, 4]], map: [0x80, 16, 0xde, [2, 4]],
};
// First byte of a value: its kind; the number in it, or width and least of the one behind it.
const FIRST = {};
for (const [kind, [fix, count, code, widths, from = 0]] of Object.entries(KINDS)) {
  for (let n = 0; n < count; n++) FIRST[fix + n] = { kind, n: n + from, width: 0 };
  widths.forEach((width, i) => {
    FIRST[code + i] = { kind, width, least: i === 0 ? count : 2 ** (8 * widths[i - 1]) };
  });
}

/** The one encoding of a value; ProtocolError if it has none. */
export function pack(value, depth = DEPTH_MAX, nodes = NODES_MAX) {
  const parts = [];
  let left = nodes;
  function head(code, width = 0, n = 0) { // one byte, and a number behind it
    const bytes = Buffer.alloc(1 + width, code);
    if (code === KINDS.float[2]) bytes.writeDoubleBE(n, 1);
    else if (width === 8) bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(n)), 1);
    else if (width > 0) bytes[n < 0 ? 'writeIntBE' : 'writeUIntBE'](Number(n), 1, width);
    parts.push(bytes);
  }

  function shortest(kind, n, data) {
    const [fix, count, code, widths, from = 0] = KINDS[kind];
    const short = n >= from && n < from + count;
    const most = n < 0 ? ~BigInt(n) * 2n : n; // as wide as its complement and a sign
    const i = widths.findIndex((width) => most < 2 ** (8 * width));
    must(short || i >= 0, 'number or length is out of range');
    if (short) head(fix + Number(n) - from);
    else head(code + i, widths[i], n);
    if (data !== undefined) parts.push(data);
  }

  function put(v, deep) {
    must(left-- > 0, 'value is too large');
    if (v === null) return shortest('nil', 0);
    if (typeof v === 'boolean') return shortest('bool', Number(v));
    if (typeof v === 'bigint' || (Number.isSafeInteger(v) && !Object.is(v, -0)))
      return shortest(v < 0 ? 'int' : 'uint', v);
    if (Number.isFinite(v)) return head(KINDS.float[2], 8, v);
    if (isText(v)) {
      must(!/\p{Surrogate}/u.test(v), 'text has half of a surrogate pair');
      return shortest('str', Buffer.byteLength(v), Buffer.from(v));
    }
    if (v instanceof Uint8Array) return shortest('bin', v.length, v);
    const proto = typeof v === 'object' ? Object.getPrototypeOf(v) : undefined;
    const is = Array.isArray(v) ? 'array' : [null, Object.prototype].includes(proto) ? 'map' : null;
    must(is !== null && deep < depth, `too deep, or a ${v?.constructor?.name ?? typeof v}`);
    const pairs = is === 'map' ? Object.entries(v).filter(([, item]) => item !== undefined) : v;
    shortest(is, pairs.length);
    for (const item of is === 'map' ? pairs.flat() : v) put(item, deep + 1);
  }
  put(value, 0);
  return Buffer.concat(parts);
}

/** The value that `data` is, all of it; ProtocolError unless it is canonical. */
export function unpack(data) {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  let at = 0, left = NODES_MAX;
  function next(n) {
    must(bytes.length - at >= n, 'value is cut short');
    at += n;
    return bytes.subarray(at - n, at);
  }

  function number({ kind, width, least }) {
    const raw = next(width), sign = kind === 'int' ? 'Int' : 'UInt';
    if (kind === 'float') return raw.readDoubleBE();
    const n = width === 8 ? raw[`readBig${sign}64BE`]() : raw[`read${sign}BE`](0, width);
    must(kind === 'int' ? n < Math.min(-32, -least / 2) : n >= least, 'not the shortest form');
    return Number.isSafeInteger(Number(n)) ? Number(n) : n;
  }

  function take(depth) {
    const first = FIRST[next(1)[0]];
    must(first !== undefined && left-- > 0, 'type is not allowed, or value is too large');
    const { kind } = first, n = first.width > 0 ? number(first) : first.n;
    if (kind === 'nil' || kind === 'bool') return kind === 'nil' ? null : n === 1;
    if (kind === 'bin' || kind === 'str') {
      const raw = next(n), v = kind === 'bin' ? Uint8Array.from(raw) : raw.toString();
      must(kind === 'bin' || Buffer.from(v).equals(raw), 'text is not UTF-8');
      return v;
    }
    must(kind !== 'float' || Number.isFinite(n), 'number is not finite');
    if (kind !== 'array' && kind !== 'map') return n;
    must(depth < DEPTH_MAX, 'value is too deep');
    const items = kind === 'array' ? [] : Object.create(null); // no key means anything by itself
    for (let i = 0; i < n; i++) {
      const key = kind === 'array' ? i : take(depth + 1);
      must(kind === 'array' || (isText(key) && !(key in items)), 'key is no text, or twice');
      items[key] = take(depth + 1);
    }
    return items;
  }
  const value = take(0);
  must(at === bytes.length, 'bytes are left over');
  return value;
}

/** `message` as it travels: its length in four bytes, then its value. */
export function frame(message) {
  const data = pack(message), length = Buffer.alloc(4);
  must(data.length <= FRAME_MAX, 'frame is too long');
  length.writeUInt32BE(data.length);
  return Buffer.concat([length, data]);
}

// ---- the link ----------------------------------------------------------------------------

class Link {
  #socket; #data = Buffer.alloc(0); #msgid = 0; #closed = false;
  #turn = null; #drain; #cancel; // the turn that is open, and what its signals are told by
  #waiting = new Map(); // msgid -> { resolve, reject, decode }, or null if its turn has ended

  constructor(fd, serve, onEnd) {
    Object.assign(this, { serve, onEnd });
    this.#socket = new Socket({ fd, readable: true, writable: true });
    this.#socket.on('data', (chunk) => this.#receive(chunk));
    this.#socket.on('error', () => {}); // reset, or closed while we wrote: 'close' follows
    this.#socket.on('close', () => this.end(null));
  }

  /** Resolves when it is written: who waits for it keeps the queue short. */
  send(message) {
    const data = frame(message);
    if (this.#closed) throw new LinkClosed('the broker closed the link');
    return new Promise((resolve) => { this.#socket.write(data, () => resolve()); });
  }

  request(method, params, turn, decode) {
    const answer = new Promise((resolve, reject) => {
      turn?.cancelled.throwIfAborted();
      const msgid = this.#msgid = (this.#msgid + 1) % 2 ** 32;
      this.send([0, msgid, method, [params()]]);
      this.#waiting.set(msgid, { resolve, reject, decode });
    });
    answer.catch(() => {}); // a failure that nobody waits for ends nothing
    return answer;
  }

  end(fault) {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket.destroy();
    this.#endTurn(new LinkClosed('the broker closed the link'));
    this.onEnd(fault);
  }

  #receive(chunk) {
    this.#data = Buffer.concat([this.#data, chunk]);
    try {
      while (!this.#closed && this.#data.length >= 4) {
        const end = 4 + this.#data.readUInt32BE();
        must(end > 4 && end <= 4 + FRAME_MAX, 'frame is empty or too long');
        if (this.#data.length < end) return;
        const message = unpack(this.#data.subarray(4, end));
        this.#data = this.#data.subarray(end);
        must(Array.isArray(message) && message.length === (message[0] === 2 ? 3 : 4), 'no frame');
        if (message[0] === 1) this.#handleReply(...message);
        else this.#handle(message[0], ...message.slice(-3));
      }
    } catch (e) {
      this.end(e);
    }
  }

  #handle(kind, msgid, method, fields) {
    must(Array.isArray(fields) && fields.length === 1, 'not one map of fields');
    const [p] = fields;
    if (kind === 0 && method === 'operation.run') {
      must(isCount(msgid) && this.#turn === null, 'a turn in a turn');
      [this.#drain, this.#cancel] = [new AbortController(), new AbortController()];
      this.#turn = new Turn(this, p, this.#drain.signal, this.#cancel.signal);
      outcomeOf(this.serve, this.#turn).then((outcome) => {
        this.#turn = null;
        if (!this.#closed) this.send([1, msgid, null, { ...outcome }]);
      });
    } else {
      const cancel = method === 'operation.cancel';
      must(kind === 2 && (cancel || method === 'operation.drain'), 'unknown method');
      mustHave(p, cancel ? { operation: isText, cause: isText } : { operation: isText });
      if (p.operation !== this.#turn?.operation) return;
      if (cancel) this.#endTurn(new Cancelled(p.cause));
      else this.#drain.abort();
    }
  }

  #handleReply(_, msgid, error, result) {
    const request = this.#waiting.get(msgid);
    must(request !== undefined, 'an answer to nothing');
    must((error === null) !== (result === null), 'not one of error and result');
    this.#waiting.delete(msgid);
    try {
      if (error !== null) throw new Refused(error);
      request?.resolve(request.decode(result));
    } catch (e) {
      request?.reject(e);
      if (!(e instanceof Refused)) throw e;
    }
  }

  #endTurn(error) {
    this.#cancel?.abort(error);
    for (const [msgid, request] of this.#waiting) {
      request?.reject(error);
      this.#waiting.set(msgid, null);
    }
  }
}

function outputOf(reply) {
  const { status, output = null, error } = mustHave(reply, { status: isText });
  if (status === 'succeeded') return output;
  must(status === 'denied' || status === 'failed', 'no such status');
  throw status === 'denied' ? new ToolDenied(error) : new ToolFailed(error);
}

/** `values`; ProtocolError if one of them would end the link. */
export function bounded(values) {
  for (const [name, v] of Object.entries(values)) {
    const [kind, most] = FIELDS[name], data = pack(v, PAYLOAD_DEPTH_MAX, PAYLOAD_NODES_MAX);
    must(kind === null || FIRST[data[0]].kind === kind, `${name} does not fit`);
    const text = kind === 'str', size = text ? Buffer.byteLength(v) : data.length;
    must(size <= most && (size > 0 || name === 'message') && !(text && v.includes('\0')),
      `${name} is ${size} of at most ${most} bytes, or has a NUL in it`);
  }
  return values;
}

/**
 * One turn: what is asked, what may be used, and the only way to act.
 *
 *   message    what the turn is asked, any value
 *   agent      who this runtime is here, "agent:<id>"
 *   tools      Map of name to { name, description, namespace, effect, input }
 *   context    who asks, for what purpose, and a description of what is in reach
 *   limits     maxSteps, maxToolCalls, deadline (an instant of performance.now())
 *   draining   AbortSignal: the time is nearly up; new calls are refused
 *   cancelled  AbortSignal: the turn is over; the process ends soon
 */
class Turn {
  #link; #calls = 0;
  constructor(link, p, draining, cancelled) {
    const { operation, executionId, agent, message, tools, context, maxSteps, maxToolCalls,
      timeoutMs } = mustHave(p, { operation: isText, executionId: isText, agent: isText,
      message: (v) => v !== undefined, tools: Array.isArray, context: isMap, maxSteps: isCount,
      maxToolCalls: isCount, timeoutMs: isCount });
    Object.assign(this, { operation, executionId, agent, message, context, draining, cancelled,
      tools: new Map(tools.map((tool) => [mustHave(tool, { name: isText }).name, tool])),
      limits: { maxSteps, maxToolCalls, deadline: performance.now() + timeoutMs } });
    this.#link = link;
  }

  /** Makes a call; its output.  `step` of the runtime's plan: a claim, never a permission.
   *  The same call under the same key is made once; another call under it is refused. */
  call(tool, args, { step, idempotencyKey } = {}) {
    const values = { tool, arguments: args, ...(step !== undefined && { step }),
      ...(idempotencyKey !== undefined && { idempotencyKey }) };
    return this.#ask('tool.invoke', values, outputOf, { id: `c${++this.#calls}` });
  }

  /** Tells the host something, as a `runtime.event`; adds to the metadata of the result. */
  emit(type, data = null) { return this.#ask('event.emit', { type, data }); }
  annotate(key, value) { return this.#ask('turn.annotate', { key, value }); }

  /** Sends bytes, or text, to whoever watches, beside standard output. */
  async output(data, stream = 'stdout') {
    must(stream === 'stdout' || stream === 'stderr', 'no such stream');
    const bytes = Buffer.from(data), { operation } = this;
    for (let at = 0; at < bytes.length; at += CHUNK_MAX) {
      await this.#link.send([2, 'output.write', [
        { operation, stream, data: bytes.subarray(at, at + CHUNK_MAX) }]]);
    }
  }

  #ask(method, values, decode = () => {}, more = {}) {
    const params = () => ({ ...bounded(values), ...more, operation: this.operation });
    return this.#link.request(method, params, this, decode);
  }
}

async function outcomeOf(serve, turn) {
  try {
    try {
      const output = (await serve(turn)) ?? null;
      return output instanceof Outcome ? output : new Outcome('complete', { output });
    } catch (e) {
      if (e instanceof Escalate) return new Outcome('escalate', { reason: e.message });
      if (!(e instanceof Fail)) throw e;
      const { code, message, retryable } = e;
      return new Outcome('fail', { error: bounded({ code, message, retryable }) });
    }
  } catch (e) { // its text may hold what the turn has read: it stays in here
    console.error(e);
    const message = String(e?.constructor?.name ?? typeof e);
    return new Outcome('fail', { error: { code: 'runtime_failed', message } });
  }
}

/** Answers every turn with `serve(turn)`.  Resolves when the broker closes the link, and rejects
 *  if what it sent is not of the protocol; what is left of the program then ends soon. */
export function run(serve, { name = 'caisson.mjs' } = {}) {
  return new Promise((resolve, reject) => {
    must(/^\d+$/.test(process.env.CAISSON_LINK_FD), 'CAISSON_LINK_FD names no descriptor');
    const link = new Link(Number(process.env.CAISSON_LINK_FD), serve, (fault) => {
      setTimeout(() => process.exit(), END_GRACE_MS).unref();
      if (fault !== null) process.exitCode = 1;
      (fault === null ? resolve : reject)(fault ?? undefined);
    });
    delete process.env.CAISSON_LINK_FD;
    link.request('hello', () => ({ protocol: PROTOCOL, name, turns: true }), null, (reply) =>
      must(mustHave(reply, { protocol: isCount }).protocol === PROTOCOL, 'another protocol'),
    ).catch((e) => link.end(e));
  });
}
