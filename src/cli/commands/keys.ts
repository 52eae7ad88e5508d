// Held keys: with `order: 'wait'`, a message that failed for good blocks the later ones of its key until a person decides.

import type { Command } from 'commander'
import { safe, shellWord } from '../../base/index.ts'
import type { HeldKey } from '../../contracts/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line } from '../io/io.ts'
import { permission } from '../io/permission.ts'
import { table } from '../io/table.ts'
import { count, plural, span } from '../io/text.ts'
import {
  type AddCommand,
  byOf,
  type ChangeOptions,
  type Done,
  examples,
  type ScopeOptions,
  scopeOf,
  wholeNumber,
  withChange,
  withStore,
} from '../options.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'

interface ListOptions extends StoreOptions {
  readonly limit: number
  readonly json?: true
}

interface ReleaseOptions extends StoreOptions, ChangeOptions, ScopeOptions {
  readonly yes?: true
}

/** The longest list that the store returns. */
const MOST = 1_000

/** Adds `hapax keys`. */
export const addKeys: AddCommand = (root, io, done) => {
  const keys = root
    .command('keys')
    .description('Manages held keys, whose messages wait behind one that failed for good.')
    .addHelpText('after', examples('hapax keys list', 'hapax keys release order-17 --consumer billing'))
  withStore(keys.command('list'))
    .description('Lists held keys, the longest held first.')
    .option('--limit <n>', 'how many to list', wholeNumber(1, MOST), 50)
    .addHelpText('after', examples('hapax keys list', 'hapax keys list --json'))
    .action(async (options) => done(await keysList(options, io)))
  addRelease(keys, io, done)
}

function addRelease(keys: Command, io: Io, done: Done): void {
  withStore(withChange(keys.command('release')))
    .argument('<key>', 'the key')
    .description('Releases a key from its held message, which stays in the failed store.')
    .option('--consumer <name>', 'the consumer that holds the key')
    .option('--relay <name>', 'the relay that holds the key')
    .option('--yes', 'do not ask for confirmation; required without a terminal')
    .addHelpText(
      'after',
      examples(
        'hapax keys release order-17 --consumer billing --dry-run',
        `hapax keys release order-17 --relay default --yes --note 'told the customer'`,
      ),
    )
    .action(async (key, options) => done(await keysRelease(key, options, io)))
}

async function keysList(options: ListOptions, io: Io): Promise<number> {
  const held = await withHapax(options, io, (hapax) => hapax.keys.list({ limit: options.limit }))
  if (options.json) json(io, { keys: held })
  else if (held.length === 0) line(io, 'no keys are held')
  else tell(held, options, io)
  return 0
}

function tell(held: readonly HeldKey[], options: StoreOptions, io: Io): void {
  table(
    io,
    [
      { title: 'key', shrinkTo: 12 },
      { title: 'of', shrinkTo: 8 },
      { title: 'held for', align: 'right' },
      { title: 'waiting', align: 'right' },
      { title: 'behind the message', shrinkTo: 12 },
      { title: 'failed seq', align: 'right' },
    ],
    held.map((each) => [
      safe(each.key),
      safe(each.origin === 'outbox' ? `relay ${each.scope}` : each.scope),
      span(Date.now() - each.heldAt.getTime()),
      count(each.waiting),
      safe(each.id),
      each.failedSeq ?? '-',
    ]),
  )
  const [first] = held
  if (first === undefined) return
  line(io)
  if (first.failedSeq !== null) line(io, `to see why:    ${command(`failed show ${first.failedSeq}`, options)}`)
  line(io, `to release it: ${command(`keys release ${releaseWords(first)}`, options)}`)
}

function releaseWords({ origin, scope, key }: HeldKey): string {
  return `${shellWord(safe(key))} --${origin === 'outbox' ? 'relay' : 'consumer'} ${shellWord(safe(scope))}`
}

async function keysRelease(key: string, options: ReleaseOptions, io: Io): Promise<number> {
  const target = targetOf(key, options)
  const held = await withHapax(options, io, async (hapax) => {
    const list = await hapax.keys.list({ limit: MOST })
    const found = list.find((each) => same(each, target))
    // With more held keys than a list can have, the release itself finds out whether the key is held.
    if (found === undefined && (list.length < MOST || options.dryRun)) throw notHeld(target, options)
    if (options.dryRun) return found
    const doing = `releasing the key ${safe(key)}`
    const asked = `Let later messages of the key ${safe(key)} of ${safe(target.scope)} go on before the failed one?`
    await permission(io, options.yes === true, doing, asked)
    await hapax.keys.release(target, byOf(options))
    return found
  })
  const what = `the key ${safe(key)} of ${safe(target.scope)}`
  const waiting = held && plural(held.waiting, 'message')
  if (options.json) json(io, { ...target, dryRun: options.dryRun === true, waiting: held?.waiting ?? null })
  else if (options.dryRun) line(io, `would release ${what}: ${waiting} behind ${safe(held?.id ?? '')} would continue`)
  else line(io, `released ${what}${held ? `: ${waiting} behind ${safe(held.id)} can continue` : ''}`)
  return 0
}

type Target = Pick<HeldKey, 'origin' | 'scope' | 'key'>

function targetOf(key: string, options: ReleaseOptions): Target {
  const { origin, scope } = scopeOf(options)
  if (origin !== undefined && scope !== undefined) return { origin, scope, key }
  throw new CliError('usage', 'expected --consumer or --relay, to say which one holds the key', [
    `to list held keys: ${command('keys list', options)}`,
  ])
}

function same(held: HeldKey, { origin, scope, key }: Target): boolean {
  return held.origin === origin && held.scope === scope && held.key === key
}

function notHeld({ scope, key }: Target, options: StoreOptions): CliError {
  return new CliError('not-found', `the key ${key} of ${scope} is not held`, [
    `to list held keys: ${command('keys list', options)}`,
  ])
}
