// A tool of one's own in JavaScript: text.count, which needs no file at all.
//
// As examples/provider/notes.yaml has one in Python, with `command: [node, /app/count.mjs]`,
// `profile: jit`, and caisson.mjs and caisson_provider.mjs at /sdk.

import { serve } from '/sdk/caisson_provider.mjs';

await serve({
  'text.count': ({ arguments: { text } }) => ({
    bytes: Buffer.byteLength(text),
    words: text.split(/[ \t\n]+/).filter((word) => word !== '').length,
    lines: text.split('\n').length - 1,
  }),
}, { concurrency: 4, name: 'count.mjs' });
