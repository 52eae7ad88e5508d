import type { Command } from 'commander'
import { safe, shellWord } from '../base/index.ts'
import type { Pause } from '../contracts/index.ts'
import { type Io, json, line } from './io/io.ts'
import { table } from './io/table.ts'
import { span } from './io/text.ts'
import { byOf, type ChangeOptions, type Done, examples, withChange, withStore } from './options.ts'
import { command, type StoreOptions, withHapax } from './store.ts'

type PauseOptions = StoreOptions & ChangeOptions

const DESCRIPTIONS = {
  consumer: {
    pause: 'Has workers take nothing more for a consumer, within a second. What runs ends; the rest waits.',
    resume: 'Has workers serve a paused consumer again.',
  },
  relay: {
    pause: 'Has workers send nothing more for a relay, within a second. Its messages wait in the outbox.',
    resume: 'Has workers send for a paused relay again.',
  },
} as const

/** Adds `pause` and `resume` to the commands about consumers, or to those about relays. */
export function addPausing(parent: Command, kind: 'consumer' | 'relay', io: Io, done: Done): void {
  const name = kind === 'consumer' ? 'billing' : 'default'
  for (const change of ['pause', 'resume'] as const) {
    withStore(withChange(parent.command(change)))
      .argument('<name>', `the ${kind}`)
      .description(DESCRIPTIONS[kind][change])
      .addHelpText('after', examples(`hapax ${kind}s ${change} ${name} --note 'the bank is down'`))
      .action(async (scope, options) => done(await pausing(kind, change, scope, options, io)))
  }
}

async function pausing(
  kind: 'consumer' | 'relay',
  change: 'pause' | 'resume',
  name: string,
  options: PauseOptions,
  io: Io,
): Promise<number> {
  const { json: asJson, dryRun } = options
  if (!dryRun) {
    await withHapax(options, io, async ({ consumers, relays }) => {
      await (kind === 'consumer' ? consumers : relays)[change](name, byOf(options))
    })
  }
  if (asJson) json(io, { [kind]: name, change, dryRun: dryRun === true })
  else {
    line(io, `${dryRun ? `would ${change}` : `${change}d`} the ${kind} ${safe(name)}`)
    const resume = command(`${kind}s resume ${shellWord(safe(name))}`, options)
    if (change === 'pause' && !dryRun) line(io, `to resume it: ${resume}`)
  }
  return 0
}

/** Prints who has paused what, and why. */
export function tellPauses(paused: readonly Pause[], at: Date, io: Io): void {
  table(
    io,
    [{ title: 'paused', shrinkTo: 12 }, { title: 'since', align: 'right' }, { title: 'by' }, { title: 'why' }],
    paused.map(({ origin, scope, at: since, actor, note }) => [
      { text: `${origin === 'inbox' ? 'consumer' : 'relay'} ${safe(scope)}`, style: 'yellow' as const },
      span(Math.max(0, at.getTime() - since.getTime())),
      safe(actor),
      safe(note ?? ''),
    ]),
  )
}
