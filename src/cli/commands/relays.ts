// The destination of a relay is recorded, so that a wrongly configured worker cannot send the outbox elsewhere. A move is therefore
// an explicit command, recorded in the audit.

import { safe } from '../../base/index.ts'
import { servesOf } from '../../worker/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line } from '../io/io.ts'
import { type AddCommand, byOf, type ChangeOptions, examples, withChange, withStore } from '../options.ts'
import { addPausing } from '../pausing.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'
import { tellRelays } from './status.ts'

/** Adds `hapax relays`. */
export const addRelays: AddCommand = (root, io, done) => {
  const relays = root
    .command('relays')
    .description('Manages relays, which move the outbox to a destination.')
    .addHelpText('after', examples('hapax relays list', `hapax relays move default 'rabbitmq exchange shop'`))
  withStore(relays.command('list'))
    .description('Lists relays, their destinations and what is waiting for them.')
    .option('--exact', 'count every row, however long that takes')
    .addHelpText('after', examples('hapax relays list', 'hapax relays list --json'))
    .action(async (options) => done(await relaysList(options, io)))
  withStore(withChange(relays.command('move')))
    .argument('<name>', 'the relay')
    .argument('<destination>', 'the new destination, exactly as the error names it')
    .description('Records a new destination for a relay. Workers with the old one then refuse to start.')
    .addHelpText(
      'after',
      examples(
        `hapax relays move default 'rabbitmq exchange shop' --dry-run`,
        `hapax relays move default 'rabbitmq exchange shop' --note 'new cluster'`,
      ),
    )
    .action(async (name, destination, options) => done(await relaysMove(name, destination, options, io)))
  addPausing(relays, 'relay', io, done)
}

async function relaysList(options: StoreOptions & { json?: true; exact?: true }, io: Io): Promise<number> {
  const exact = options.exact === true
  const { relays, at } = await withHapax(options, io, (hapax) => hapax.status({ exact }))
  if (options.json) json(io, { relays })
  else if (relays.length === 0) line(io, 'no relays are known, and nothing is waiting for one')
  else tellRelays(relays, at, io)
  return 0
}

async function relaysMove(
  name: string,
  destination: string,
  options: StoreOptions & ChangeOptions,
  io: Io,
): Promise<number> {
  const { from, serving } = await withHapax(options, io, async (hapax) => {
    const { relays, workers } = await hapax.status()
    const known = relays.find(({ relay }) => relay === name)
    if (known === undefined) {
      throw new CliError('not-found', `there is no relay ${name}`, [
        `to list relays: ${command('relays list', options)}`,
      ])
    }
    if (!options.dryRun) await hapax.relays.move(name, destination, byOf(options))
    const alive = workers.filter((worker) => worker.alive && servesOf(worker).relays.includes(name))
    return { from: known.destination, serving: alive.map((worker) => worker.name) }
  })
  if (options.json) json(io, { relay: name, dryRun: options.dryRun === true, from, to: destination, serving })
  else {
    const verb = options.dryRun ? 'would move' : 'moved'
    line(io, `${verb} the relay ${safe(name)} from ${safe(from ?? 'nowhere')} to ${safe(destination)}`)
    if (serving.length > 0 && from !== destination) {
      line(io, `restart these workers, which still use the old destination: ${safe(serving.join(', '))}`)
    }
  }
  return 0
}
