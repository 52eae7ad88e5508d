import type { ListedEndpoint } from '../../../admin/index.ts'
import { safe } from '../../../base/index.ts'
import type { Hapax } from '../../../index.ts'
import { CliError } from '../../io/errors.ts'
import { type Io, json, line } from '../../io/io.ts'
import { permission } from '../../io/permission.ts'
import { when } from '../../io/text.ts'
import { byOf, type ChangeOptions } from '../../options.ts'
import { command, type StoreOptions, withHapax } from '../../store.ts'
import { driverOf } from './driver.ts'
import { noSuchEndpoint, typesOf } from './show.ts'

type Options = StoreOptions & ChangeOptions

/** Finds the endpoint, and changes it unless it is a dry run. */
function changed<T>(
  id: string,
  options: Options,
  io: Io,
  change: (hapax: Hapax<unknown>, endpoint: ListedEndpoint) => Promise<T>,
): Promise<{ readonly endpoint: ListedEndpoint; readonly value: T | undefined }> {
  return withHapax(options, io, async (hapax) => {
    const endpoint = (await hapax.endpoints.list()).find((each) => each.id === id)
    if (endpoint === undefined) throw noSuchEndpoint(id, options)
    return { endpoint, value: options.dryRun ? undefined : await change(hapax, endpoint) }
  })
}

function tell(io: Io, options: Options, document: object, done: string, would: string): number {
  if (options.json) json(io, { ...document, dryRun: options.dryRun === true })
  else line(io, options.dryRun ? would : done)
  return 0
}

/** `hapax endpoints disable`. */
export async function endpointsDisable(id: string, options: Options, io: Io): Promise<number> {
  const { note: reason = 'disabled by hand' } = options
  const { endpoint } = await changed(id, options, io, (hapax) =>
    hapax.endpoints.disable(id, reason, { by: byOf(options) }),
  )
  const what = `${safe(id)} (${safe(endpoint.url)})`
  return tell(io, options, { endpoint: id, reason }, `disabled ${what}: ${safe(reason)}`, `would disable ${what}`)
}

/** `hapax endpoints enable`. */
export async function endpointsEnable(id: string, options: Options, io: Io): Promise<number> {
  const { endpoint } = await changed(id, options, io, (hapax) => hapax.endpoints.enable(id, { by: byOf(options) }))
  const what = `${safe(id)} (${safe(endpoint.url)})`
  tell(io, options, { endpoint: id }, `enabled ${what}`, `would enable ${what}`)
  if (!options.json && !options.dryRun && !endpoint.enabled) {
    const retry = `failed retry --consumer webhooks:${endpoint.relay} --reason endpoint-disabled --dry-run`
    line(io, `to deliver what failed meanwhile: ${command(retry, options)}`)
  }
  return 0
}

interface EndpointChangeOptions extends Options {
  readonly url?: string
  readonly type?: readonly string[]
  readonly about?: string
}

/** `hapax endpoints change`. */
export async function endpointsChange(id: string, options: EndpointChangeOptions, io: Io): Promise<number> {
  const { url, type, about } = options
  const change = { ...(url && { url }), ...(type && { types: typesOf(type) }), ...(about && { note: about }) }
  if (Object.keys(change).length === 0) {
    throw new CliError('usage', 'expected something to change: --url, --type or --about')
  }
  await changed(id, options, io, async (hapax, { relay }) =>
    hapax.endpoints.change(id, change, { by: byOf(options), through: await driverOf(options, io, relay) }),
  )
  const names = Object.keys(change).join(', ')
  return tell(
    io,
    options,
    { endpoint: id, change },
    `changed ${names} of ${safe(id)}`,
    `would change ${names} of ${safe(id)}`,
  )
}

/** `hapax endpoints rotate`. */
export async function endpointsRotate(
  id: string,
  options: Options & { grace: number; secret?: string },
  io: Io,
): Promise<number> {
  const { value } = await changed(id, options, io, async (hapax, { relay }) =>
    hapax.endpoints.rotate(id, {
      graceMs: options.grace,
      ...(options.secret && { secret: options.secret }),
      by: byOf(options),
      through: await driverOf(options, io, relay),
    }),
  )
  const { secret = null, until = null } = value ?? {}
  const done = `the new secret of ${safe(id)}, which is not shown again: ${secret}`
  tell(io, options, { endpoint: id, secret, until }, done, `would give ${safe(id)} a new secret`)
  if (!options.json && until !== null && options.grace > 0) {
    line(io, `deliveries are signed with the old one as well until ${when(until)}`)
  }
  return 0
}

/** `hapax endpoints remove`. */
export async function endpointsRemove(id: string, options: Options & { yes?: true }, io: Io): Promise<number> {
  const { endpoint } = await changed(id, options, io, async (hapax, { enabled, url }) => {
    const sure = options.yes === true || !enabled
    await permission(io, sure, 'removing an endpoint that is enabled', `Remove ${safe(id)} (${safe(url)})?`)
    await hapax.endpoints.remove(id, { by: byOf(options) })
  })
  const what = `${safe(id)} (${safe(endpoint.url)})`
  return tell(io, options, { endpoint: id, url: endpoint.url }, `removed ${what}`, `would remove ${what}`)
}
