#!/usr/bin/node
/**
 * Looks for a word in the files of a directory: a driver of the standard loop.
 *
 *     caisson run --profile jit --app examples/node --ro worker/sdk:/sdk --max-steps 100 \
 *         --allow list:docs --allow read:docs -m '{"path": "docs", "word": "drain"}' \
 *         -- node /app/find.mjs
 *
 * What it may not read it asks a person for, where it may ask; that ends the turn.
 */
import { serve, call, complete, fail, ESCALATE } from '../sdk/caisson_loop.mjs'; // /app/find.mjs

function finder({ message: { path, word } }) {
  let last, left = []; // the call that was made last; files still to be read

  function ask(tool, file) {
    last = { tool, arguments: { path: file } };
    return call(tool, last.arguments);
  }

  return {
    decide({ type, result }) {
      if (type === 'start') return ask('files.list', path);
      const { tool, status, output, error } = result;
      if (status === 'denied' && tool !== ESCALATE)
        return call(ESCALATE, { reason: `it may hold '${word}'`, request: last });
      if (status !== 'succeeded') return fail(error.code, `no ${last.arguments.path}`);
      if (tool === 'files.list')
        left = output.entries.filter((entry) => entry.type === 'file').map(({ name }) => name);
      else if ((output.text ?? '').includes(word)) return complete({ found: last.arguments.path });
      if (left.length === 0) return complete({ found: null });
      return ask('files.read', `${path}/${left.shift()}`);
    },
  };
}

await serve(finder);
