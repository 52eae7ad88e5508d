import type { EndpointTest, ListedEndpoint } from '../../../admin/index.ts'
import { safe } from '../../../base/index.ts'
import type { StoreStatus } from '../../../contracts/index.ts'
import { deliveriesName } from '../../../message/index.ts'
import { CliError } from '../../io/errors.ts'
import { type Io, json, line, paint } from '../../io/io.ts'
import { type Cell, table } from '../../io/table.ts'
import { count, when } from '../../io/text.ts'
import { byOf, type ChangeOptions } from '../../options.ts'
import { command, type StoreOptions, withHapax } from '../../store.ts'
import { driverOf } from './driver.ts'

interface AddOptions extends StoreOptions, ChangeOptions {
  readonly relay: string
  readonly type?: readonly string[]
  readonly id?: string
  readonly secret?: string
  readonly about?: string
}

/** `hapax endpoints add`. */
export async function endpointsAdd(url: string, options: AddOptions, io: Io): Promise<number> {
  const { relay, type: types, id, secret, about, dryRun } = options
  const through = await driverOf(options, io, relay)
  const added = await withHapax(options, io, async (hapax) => {
    if (!dryRun) {
      const given = { ...(types && { types: typesOf(types) }), ...(id && { id }), ...(secret && { secret }) }
      return hapax.endpoints.add(
        { url, relay, ...given, ...(about && { note: about }) },
        { by: byOf(options), through },
      )
    }
    const objection = await through.check(url)
    if (objection !== undefined) throw new CliError('refused', `${url} may not be called: ${objection}`)
    return { id: id ?? null, secret: null }
  })
  if (options.json) json(io, { ...added, relay, url, types: typesOf(types), dryRun: dryRun === true })
  else if (dryRun) line(io, `would add ${safe(url)} to the relay ${safe(relay)}, for ${safe(wanted(typesOf(types)))}`)
  else {
    line(io, `added ${safe(added.id ?? '')} to the relay ${safe(relay)}, for ${safe(wanted(typesOf(types)))}`)
    line(io, `its secret, which is not shown again: ${added.secret}`)
    line(io, `to try it: ${command(`endpoints test ${added.id}`, options)}`)
  }
  return 0
}

/** The option names types; the word 'all' alone stands for every type. */
export function typesOf(given: readonly string[] | undefined): readonly string[] | 'all' {
  return given === undefined || (given.length === 1 && given[0] === 'all') ? 'all' : given
}

function wanted(types: readonly string[] | 'all'): string {
  return types === 'all' ? 'all types' : types.join(', ')
}

/** `hapax endpoints list`. */
export async function endpointsList(
  options: StoreOptions & { readonly relay?: string; readonly json?: true },
  io: Io,
): Promise<number> {
  const { endpoints, status } = await withHapax(options, io, async (hapax) => ({
    endpoints: await hapax.endpoints.list(options.relay),
    status: await hapax.status(),
  }))
  const relays = [...new Set(endpoints.map(({ relay }) => relay))].map((relay) => waitingOf(relay, status))
  if (options.json) json(io, { endpoints, relays })
  else if (endpoints.length === 0)
    line(io, `no endpoints are registered; to add one: ${command('endpoints add <url>', options)}`)
  else tell(endpoints, relays, io)
  return 0
}

interface Waiting {
  readonly relay: string
  /** Events that are not spread yet. */
  readonly outbox: number
  readonly waiting: number
  readonly retrying: number
  readonly failed: number
}

/** What waits for all endpoints of a relay together: for each alone it would have to be counted row by row. */
function waitingOf(relay: string, { relays, consumers }: StoreStatus): Waiting {
  const deliveries = consumers.find(({ consumer }) => consumer === deliveriesName(relay))
  const outbox = relays.find((each) => each.relay === relay)?.waiting ?? 0
  const { waiting = 0, retrying = 0, failed = 0 } = deliveries ?? {}
  return { relay, outbox, waiting, retrying, failed }
}

function tell(endpoints: readonly ListedEndpoint[], relays: readonly Waiting[], io: Io): void {
  table(
    io,
    [
      { title: 'endpoint', shrinkTo: 8 },
      { title: 'relay', shrinkTo: 8 },
      { title: 'state', shrinkTo: 8 },
      { title: 'types', shrinkTo: 12 },
      { title: 'url', shrinkTo: 20 },
      { title: 'secrets', shrinkTo: 12 },
      { title: 'note', shrinkTo: 8 },
    ],
    endpoints.map((each) => [
      safe(each.id),
      safe(each.relay),
      stateOf(each),
      safe(wanted(each.types)),
      safe(each.url),
      safe(each.secrets.map(({ hint, until }) => (until === null ? hint : `${hint} until ${when(until)}`)).join(', ')),
      safe(each.note ?? ''),
    ]),
  )
  line(io)
  for (const { relay, outbox, waiting, retrying, failed } of relays) {
    const parts = [`${count(outbox)} in the outbox`, `${count(waiting)} waiting`, `${count(retrying)} retrying`]
    line(io, `relay ${safe(relay)}: ${parts.join(', ')}, ${count(failed)} failed`)
  }
}

function stateOf({ enabled, reason }: ListedEndpoint): Cell {
  if (enabled) return { text: 'enabled', style: 'green' }
  return { text: safe(reason === null ? 'disabled' : `disabled: ${reason}`), style: 'red' }
}

/** `hapax endpoints test`. */
export async function endpointsTest(
  id: string,
  options: StoreOptions & { readonly json?: true },
  io: Io,
): Promise<number> {
  const tested = await withHapax(options, io, async (hapax) => {
    const endpoint = (await hapax.endpoints.list()).find((each) => each.id === id)
    if (endpoint === undefined) throw noSuchEndpoint(id, options)
    return hapax.endpoints.test(id, { through: await driverOf(options, io, endpoint.relay) })
  })
  if (options.json) json(io, { endpoint: id, ...tested })
  else tellTest(tested, io)
  return tested.delivered ? 0 : 1
}

function tellTest({ delivered, code, ms, answer, error }: EndpointTest, io: Io): void {
  const said = code === null ? '' : ` with ${code}`
  if (delivered) line(io, `${paint(io, 'green', 'delivered')}${said} in ${count(ms)} ms`)
  else line(io, `${paint(io, 'red', 'not delivered')}${said} after ${count(ms)} ms: ${safe(error ?? '')}`)
  if (answer !== '') line(io, `the receiver said: ${safe(answer)}`)
}

/** The error of an endpoint that does not exist. */
export function noSuchEndpoint(id: string, options: StoreOptions): CliError {
  return new CliError('not-found', `there is no endpoint ${id}`, [
    `to list endpoints: ${command('endpoints list', options)}`,
  ])
}
