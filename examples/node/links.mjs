#!/usr/bin/node
/**
 * Checks the links between the pages of a directory: a runtime in fifty lines.
 *
 *     caisson run --profile jit --app examples/node --ro worker/sdk:/sdk --max-tool-calls 200 \
 *         --allow list:docs --allow read:docs -m '{"path": "docs"}' -- node /app/links.mjs
 *
 * A page that leaves the directory is not looked at: the broker says no, and the report says so.
 */
import { posix } from 'node:path';
import { run, Fail, ToolDenied, ToolFailed } from '../sdk/caisson.mjs'; // /app/links.mjs

/** Every entry of a directory, page by page. */
async function* entries(turn, path) {
  for (let page = { complete: false }; !page.complete;) {
    page = await turn.call('files.list', page.cursor ? { path, cursor: page.cursor } : { path });
    yield* page.entries;
  }
}

/** The files that a page links to, by their paths. */
async function targets(turn, page) {
  const { text = '' } = await turn.call('files.read', { path: page }); // none: it is no text
  const links = [...text.matchAll(/\]\(([^)#:\s]+)[^):\s]*\)/g)].map(([, link]) => link);
  return links.map((link) => posix.join(posix.dirname(page), link));
}

/** "ok", or the code that says why not. */
async function state(turn, path) {
  try {
    await turn.call('files.stat', { path });
    return 'ok';
  } catch (e) {
    if (e instanceof ToolDenied || e instanceof ToolFailed) return e.code;
    throw e;
  }
}

async function check(turn) {
  const { path } = turn.message, pages = [], broken = {};
  try {
    for await (const { name, type } of entries(turn, path)) {
      if (type === 'file' && name.endsWith('.md')) pages.push(posix.join(path, name));
    }
  } catch (e) {
    throw e instanceof ToolDenied ? new Fail(e.code, `${path} may not be listed`) : e;
  }
  const linked = await Promise.all(pages.map((page) => targets(turn, page))); // all in flight
  const unique = [...new Set(linked.flat())];
  const states = await Promise.all(unique.map((target) => state(turn, target)));
  unique.forEach((target, i) => { if (states[i] !== 'ok') broken[target] = states[i]; });
  await turn.annotate('pages', pages.length);
  return { pages: pages.length, links: unique.length, broken };
}

await run(check);
