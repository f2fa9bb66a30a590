/**
 * A driver that does what the message of its turn says, on the loop in JavaScript: loop_driver.py
 * says how.  Its argument is the directory of the SDK.
 */
import { writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const sdk = pathToFileURL(`${process.argv[2]}/`);
const { pack, run } = await import(new URL('caisson.mjs', sdk));
const loop = await import(new URL('caisson_loop.mjs', sdk));

const once = (signal) => new Promise((resolve) => {
  if (signal.aborted) resolve();
  else signal.addEventListener('abort', resolve);
});

async function act(turn, part) {
  if ('emit' in part) await turn.emit(part.emit);
  if ('await' in part) await once(turn[part.await]);
  if ('raise' in part) throw new Error(part.raise);
  if ('hang' in part) await new Promise(() => {});
  return part.decide;
}

const say = (line) => writeSync(1, `${line}\n`);

async function driver(turn) {
  const { open, decide, close } = turn.message;
  await act(turn, open);
  return {
    decide(given) {
      say(`ask ${pack(given).toString('hex')}`);
      return act(turn, decide.shift());
    },
    close(status) {
      say(`close ${status}`);
      return act(turn, close);
    },
  };
}

await run((turn) => loop.run(turn, driver, Number(turn.message.close_ms)));
