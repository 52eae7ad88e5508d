import { expected, fieldOf } from '../../base/index.ts'
import type { IoredisClient } from './client.ts'

/** The subset of a cluster of `ioredis` or `iovalkey` that hapax needs. */
export interface IoredisCluster {
  readonly isCluster: boolean
  duplicate(startupNodes?: [], override?: object): IoredisCluster
  connect(): Promise<unknown>
  disconnect(): void
  nodes(role: 'master'): readonly IoredisClient[]
  on(event: 'error', listener: (error: Error) => void): unknown
}

export function isCluster(client: object): client is IoredisCluster {
  return fieldOf(client, 'isCluster') === true && fieldOf(client, 'slots') !== undefined
}

/** The slot of a key depends on its prefix, which a cluster may have for itself or for its nodes. */
export function refusePrefix(cluster: IoredisCluster): void {
  const prefix = fieldOf(fieldOf(cluster, 'options'), 'keyPrefix')
  if (prefix) expected('client', 'a cluster without keyPrefix: begin the names of streams with it', prefix)
}

/**
 * A client like that of the master which has this key at the moment. A cluster of our own looks for it, with the settings of the user's, and
 * is left at once: what follows is one connection to one server, as without a cluster. `place` is another server, which need not have any
 * slot yet.
 */
export async function masterOf(
  cluster: IoredisCluster,
  key: string,
  settings: object,
  { connectMs, place }: { readonly connectMs: number; readonly place: string | undefined },
): Promise<IoredisClient> {
  const own = cluster.duplicate([], {
    lazyConnect: true,
    // A link that fails is opened again by its reader or relay.
    clusterRetryStrategy: null,
    enableReadyCheck: false,
    slotsRefreshTimeout: Math.ceil(connectMs / 3),
  })
  let last: Error | undefined
  own.on('error', (error) => {
    last = error
  })
  try {
    await own.connect().catch((error: unknown) => {
      throw last ?? error
    })
    // Not asked for: any node would be asked, and one that stands still never answers.
    const slot = slotOf(key)
    const [home] = listed(fieldOf(fieldOf(own, 'slots'), String(slot)))
    const master = own.nodes('master').find((node) => placeOf(node) === home)
    if (master === undefined) throw new Error(`no master of the cluster has the slot ${slot} of ${key}`)
    return master.duplicate(place === undefined ? settings : { ...settings, ...addressOf(cluster, master, place) })
  } finally {
    own.disconnect()
  }
}

function placeOf({ options }: IoredisClient): string {
  return `${fieldOf(options, 'host')}:${fieldOf(options, 'port')}`
}

/** The host and the port of a place, as this machine reaches it. Without a host, it is that of the server which named it. */
function addressOf(cluster: IoredisCluster, master: IoredisClient, place: string): object {
  const natMap = fieldOf(fieldOf(cluster, 'options'), 'natMap')
  const mapped: unknown = typeof natMap === 'function' ? natMap(place) : fieldOf(natMap, place)
  if (typeof mapped === 'object' && mapped !== null) return mapped
  const colon = place.lastIndexOf(':')
  return { host: place.slice(0, colon) || fieldOf(master.options, 'host'), port: Number(place.slice(colon + 1)) }
}

function listed(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : expected('client', 'a cluster of ioredis or iovalkey', value)
}

/** The slot of a key: the CRC16 (XMODEM) of what is between braces, or of the whole key. */
export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(hashedOf(key))) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff
  }
  return crc % SLOTS
}

const SLOTS = 16_384

/** What puts another key into the slot of this one, between braces. */
export function tagOf(key: string): string {
  const hashed = hashedOf(key)
  if (!hashed.includes('}')) return hashed
  // It would end at the first brace. Some number has the same slot.
  for (let number = 0; ; number++) if (slotOf(`${number}`) === slotOf(key)) return `${number}`
}

/** What a cluster looks at to find the slot of a key. */
function hashedOf(key: string): string {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key
}
