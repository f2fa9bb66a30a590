// The tools that tests/integration/test_sdk_provider.py calls, in JavaScript.

import { writeSync } from 'node:fs';
import { Fail, serve } from './caisson_provider.mjs';

await serve({
  't.echo': ({ tool, arguments: args, action, namespace, path }) =>
    ({ tool, arguments: args, action, namespace, path }),
  't.fail': () => { throw new Fail('not_found', 'there is none', true); },
  't.crash': async (call) => { throw new TypeError(call.arguments.secret); },
  't.wait': (call) => new Promise((resolve) => {
    call.cancelled.addEventListener('abort', () => resolve('stopped'));
  }),
  't.big': () => 'x'.repeat(800 << 10),
  't.deep': () => {
    let value = [];
    for (let i = 0; i < 28; i++) value = [value];
    return value;
  },
  't.print': () => {
    console.log('to standard output');
    writeSync(1, Buffer.from([0xff, 0, 1]));
    console.error('to standard error');
    return 'said';
  },
  't.mine': (call) => call.resource('path'),
}, { concurrency: 4, name: 'table' });
