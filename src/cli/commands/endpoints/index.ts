// Endpoints of outgoing webhooks. A secret is printed once, when it is made; afterwards nobody can read it here.

import type { Command } from 'commander'
import type { Io } from '../../io/io.ts'
import { type AddCommand, type Done, durationOption, examples, withChange, withStore } from '../../options.ts'
import { endpointsChange, endpointsDisable, endpointsEnable, endpointsRemove, endpointsRotate } from './change.ts'
import { endpointsAdd, endpointsList, endpointsTest } from './show.ts'

const DAY_MS = 86_400_000

/** Adds `hapax endpoints`. */
export const addEndpoints: AddCommand = (root, io, done) => {
  const endpoints = root
    .command('endpoints')
    .description('Manages the endpoints that outgoing webhooks are delivered to.')
    .addHelpText(
      'after',
      examples('hapax endpoints list', `hapax endpoints add https://example.com/hooks --type 'order.*'`),
    )
  addList(endpoints, io, done)
  addAdd(endpoints, io, done)
  addChanges(endpoints, io, done)
  addRotate(endpoints, io, done)
  addTest(endpoints, io, done)
}

function addList(endpoints: Command, io: Io, done: Done): void {
  withStore(endpoints.command('list'))
    .description('Lists endpoints, what they want, and what waits for those of their relay.')
    .option('--relay <name>', 'only those of this relay')
    .addHelpText('after', examples('hapax endpoints list', 'hapax endpoints list --relay partners --json'))
    .action(async (options) => done(await endpointsList(options, io)))
}

function addAdd(endpoints: Command, io: Io, done: Done): void {
  withStore(withChange(endpoints.command('add')))
    .argument('<url>', 'where events are sent')
    .description('Registers an endpoint and prints its secret, which is not shown again.')
    .option('--relay <name>', 'the relay whose events it gets', 'default')
    .option('--type <types...>', `the types that it wants, such as 'order.*' (default: all)`)
    .option('--id <id>', 'its id (default: a new one)')
    .option('--secret <secret>', 'what deliveries are signed with, whsec_… (default: a new one)')
    .option('--about <text>', 'a note that the list shows')
    .addHelpText(
      'after',
      `\n${CHECKED}${examples(
        'hapax endpoints add https://example.com/hooks',
        `hapax endpoints add https://example.com/hooks --type 'order.*' invoice.paid --about 'ACME, ticket 17'`,
      )}`,
    )
    .action(async (url, options) => done(await endpointsAdd(url, options, io)))
}

const CHECKED = `The address is checked by the webhooks() of hapax.config.ts, if it exports a
worker with one for this relay, and otherwise by the usual rules: https, and no
private address.
`

function addChanges(endpoints: Command, io: Io, done: Done): void {
  withStore(withChange(endpoints.command('change')))
    .argument('<id>', 'the endpoint')
    .description('Changes the address of an endpoint, the types that it wants, or its note.')
    .option('--url <url>', 'the new address; what waits goes there too')
    .option('--type <types...>', `the types that it wants from now on, or 'all'`)
    .option('--about <text>', 'a note that the list shows')
    .addHelpText('after', examples('hapax endpoints change ep_1 --url https://example.com/v2 --dry-run'))
    .action(async (id, options) => done(await endpointsChange(id, options, io)))
  withStore(withChange(endpoints.command('disable')))
    .argument('<id>', 'the endpoint')
    .description('Stops deliveries to an endpoint. What waits for it moves to the failed store.')
    .addHelpText(
      'after',
      `\nThe list shows the note as the reason.\n${examples(`hapax endpoints disable ep_1 --note 'contract ended'`)}`,
    )
    .action(async (id, options) => done(await endpointsDisable(id, options, io)))
  withStore(withChange(endpoints.command('enable')))
    .argument('<id>', 'the endpoint')
    .description('Resumes deliveries of what is published from now on.')
    .addHelpText('after', examples('hapax endpoints enable ep_1'))
    .action(async (id, options) => done(await endpointsEnable(id, options, io)))
  withStore(withChange(endpoints.command('remove')))
    .argument('<id>', 'the endpoint')
    .description('Forgets an endpoint. What waits for it moves to the failed store.')
    .option('--yes', 'remove it even if it is enabled')
    .addHelpText('after', examples('hapax endpoints remove ep_1 --dry-run'))
    .action(async (id, options) => done(await endpointsRemove(id, options, io)))
}

function addRotate(endpoints: Command, io: Io, done: Done): void {
  withStore(withChange(endpoints.command('rotate')))
    .argument('<id>', 'the endpoint')
    .description('Gives an endpoint a new secret and prints it. The old one signs as well for a while.')
    .option('--secret <secret>', 'the new secret, whsec_… or whsk_… (default: a random one)')
    .addOption(durationOption('--grace <time>', 'how long the old secret signs as well', [0, 3_650 * DAY_MS], DAY_MS))
    .addHelpText('after', examples('hapax endpoints rotate ep_1', 'hapax endpoints rotate ep_1 --grace 0s'))
    .action(async (id, options) => done(await endpointsRotate(id, options, io)))
}

function addTest(endpoints: Command, io: Io, done: Done): void {
  withStore(endpoints.command('test'))
    .argument('<id>', 'the endpoint')
    .description('Sends an event of the type hapax.test now, and prints what the receiver said.')
    .addHelpText(
      'after',
      `\nNothing that waits is touched, and a disabled endpoint is tested too.
Exit codes: 0 delivered, 1 not delivered, 2 wrong usage.
${examples('hapax endpoints test ep_1', 'hapax endpoints test ep_1 --json')}`,
    )
    .action(async (id, options) => done(await endpointsTest(id, options, io)))
}
