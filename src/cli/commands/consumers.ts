// A consumer that is known gets local messages even if no worker serves it. Removing one that was retired stops its inbox from growing.

import type { KnownConsumer } from '../../admin/index.ts'
import { safe } from '../../base/index.ts'
import { servesOf } from '../../worker/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line } from '../io/io.ts'
import { table } from '../io/table.ts'
import { type AddCommand, byOf, type ChangeOptions, examples, withChange, withStore } from '../options.ts'
import { addPausing } from '../pausing.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'

interface RemoveOptions extends StoreOptions, ChangeOptions {
  readonly yes?: true
}

/** Adds `hapax consumers`. */
export const addConsumers: AddCommand = (root, io, done) => {
  const consumers = root
    .command('consumers')
    .description('Manages the consumers that are known to this database.')
    .addHelpText('after', examples('hapax consumers list', 'hapax consumers remove billing --dry-run'))
  withStore(consumers.command('list'))
    .description('Lists consumers and the message types they handle.')
    .addHelpText('after', examples('hapax consumers list', 'hapax consumers list --json'))
    .action(async (options) => done(await consumersList(options, io)))
  withStore(withChange(consumers.command('remove')))
    .argument('<name>', 'the consumer')
    .description('Forgets a consumer that is no longer deployed, and stops local delivery to it.')
    .option('--yes', 'remove it even if a live worker serves it')
    .addHelpText(
      'after',
      `\nIts receipts, inbox and failed messages stay. A worker that starts with it adds it again.\n${examples(
        'hapax consumers remove billing --dry-run',
        `hapax consumers remove billing --note 'moved to another service'`,
      )}`,
    )
    .action(async (name, options) => done(await consumersRemove(name, options, io)))
  addPausing(consumers, 'consumer', io, done)
}

async function consumersList(options: StoreOptions & { json?: true }, io: Io): Promise<number> {
  const consumers = await withHapax(options, io, (hapax) => hapax.consumers.list())
  if (options.json) json(io, { consumers })
  else if (consumers.length === 0) line(io, 'no consumers are known yet; a worker adds its consumers when it starts')
  else tell(consumers, io)
  return 0
}

function tell(consumers: readonly KnownConsumer[], io: Io): void {
  table(
    io,
    [{ title: 'consumer', shrinkTo: 12 }, { title: 'order' }, { title: 'types', shrinkTo: 20 }],
    consumers.map(({ name, ordered, types }) => [safe(name), ordered ? 'by key' : 'none', safe(types.join(', '))]),
  )
}

async function consumersRemove(name: string, options: RemoveOptions, io: Io): Promise<number> {
  const removed = await withHapax(options, io, async (hapax) => {
    const known = (await hapax.consumers.list()).find((each) => each.name === name)
    if (known === undefined) {
      throw new CliError('not-found', `there is no consumer ${name}`, [
        `to list known consumers: ${command('consumers list', options)}`,
      ])
    }
    const { workers } = await hapax.status()
    const serving = workers.filter((worker) => worker.alive && servesOf(worker).consumers.has(name))
    if (serving.length > 0 && !options.yes) {
      const names = serving.map((worker) => worker.name).join(', ')
      throw new CliError('refused', `${name} is served by ${names}: removing it would stop their local delivery`, [
        'stop those workers first, or add --yes',
      ])
    }
    if (!options.dryRun) await hapax.consumers.remove(name, byOf(options))
    return known
  })
  const types = safe(removed.types.join(', '))
  if (options.json) json(io, { consumer: name, dryRun: options.dryRun === true, types: removed.types })
  else line(io, `${options.dryRun ? 'would remove' : 'removed'} ${safe(name)}, which handles ${types}`)
  return 0
}
