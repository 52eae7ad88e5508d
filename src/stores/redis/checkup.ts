// What `doctor` checks on Redis. A server that forgets a claim lets a call be made twice, so most checks are about what may be lost:
// eviction, persistence, and fail-over to a replica.

import type { Finding } from '../../contracts/index.ts'
import { type Commands, type Reply, textOf, wordOf } from './commands.ts'

/** What is said about one server. */
interface Server {
  readonly info: ReadonlyMap<string, string>
  /** Undefined: it does not tell; hosted servers often do not. */
  readonly appendfsync: string | undefined
  readonly minReplicas: number | undefined
}

/** Looks at the settings of every server that has data. */
export async function checkup(commands: Commands): Promise<readonly Finding[]> {
  const infos = await commands.onEach('INFO')
  const fsyncs = await settings(commands, 'appendfsync', infos.length)
  const replicas = await settings(commands, 'min-replicas-to-write', infos.length)
  const servers = infos.map((info, index) => ({
    info: parsed(wordOf(info)),
    appendfsync: fsyncs[index],
    minReplicas: replicas[index] === undefined ? undefined : Number(replicas[index]),
  }))
  const role = roleOf(servers, commands.cluster)
  return [role, ...[version, eviction, persistence, failOver, memory].map((look) => look(servers))]
}

/** A setting of each server. */
async function settings(commands: Commands, name: string, count: number): Promise<readonly (string | undefined)[]> {
  try {
    const replies = await commands.onEach('CONFIG', 'GET', name)
    return replies.map((reply) => settingOf(reply, name))
  } catch {
    return Array.from({ length: count }, () => undefined)
  }
}

/** Depending on the protocol, names and values in turn, or a table of them. */
function settingOf(reply: Reply, name: string): string | undefined {
  if (Array.isArray(reply)) return textOf(reply[1]) ?? undefined
  if (reply instanceof Map) return textOf(reply.get(name)) ?? undefined
  const table: Readonly<Record<string, Reply>> = Object(reply)
  return textOf(table[name]) ?? undefined
}

function parsed(info: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>()
  for (const [, name = '', value = ''] of info.matchAll(/^([^#:\r\n]+):(.*)$/gm)) fields.set(name, value)
  return fields
}

function roleOf(servers: readonly Server[], cluster: boolean): Finding {
  const check = 'role'
  if (servers.some(({ info }) => info.get('role') === 'slave')) {
    return error(check, 'the server is a replica: nothing can be written to it', 'Connect to the primary.')
  }
  if (!cluster && servers.some(({ info }) => info.get('cluster_enabled') === '1')) {
    const message =
      'the server is a node of a cluster, but the client is not a cluster client: it reaches only some of the keys'
    return error(check, message, 'Pass a client for clusters, as new Cluster([…]) of ioredis.')
  }
  return ok(check, cluster ? `${servers.length} primaries of a cluster` : 'a primary')
}

function version(servers: readonly Server[]): Finding {
  const names = [...new Set(servers.map(({ info }) => nameOf(info)))].join(', ')
  const old = servers.some(({ info }) => Number.parseInt(info.get('redis_version') ?? '', 10) < 7)
  return old ? warning('version', names, 'hapax is tested on Redis 7.0 and newer.') : ok('version', names)
}

/** Valkey also says which Redis it is compatible with. */
function nameOf(info: ReadonlyMap<string, string>): string {
  const valkey = info.get('valkey_version')
  return valkey === undefined ? `Redis ${info.get('redis_version')}` : `Valkey ${valkey}`
}

function eviction(servers: readonly Server[]): Finding {
  const others = servers.map(({ info }) => info.get('maxmemory_policy') ?? '').filter((each) => each !== 'noeviction')
  if (others.length === 0) return ok('eviction', 'nothing is evicted (maxmemory-policy noeviction)')
  return error(
    'eviction',
    `maxmemory-policy is ${others[0]}: when memory runs short, Redis forgets claims and receipts, and calls are made twice`,
    'Set maxmemory-policy to noeviction, or give hapax a Redis of its own.',
  )
}

function persistence(servers: readonly Server[]): Finding {
  const check = 'persistence'
  if (servers.some(({ info }) => info.get('aof_enabled') !== '1')) {
    const message =
      'there is no append-only file: a restart loses what was written since the last snapshot, or all of it'
    return warning(check, message, 'Set appendonly to yes and appendfsync to always.')
  }
  const weak = servers.map(({ appendfsync }) => appendfsync).find((each) => each !== 'always')
  if (servers.every(({ appendfsync }) => appendfsync === 'always')) {
    return ok(check, 'every write is on disk before it is answered (appendonly yes, appendfsync always)')
  }
  if (weak === undefined)
    return warning(check, 'the server does not reveal appendfsync', 'Make sure that it is always.')
  const message = `appendfsync is ${weak}: when the machine fails, about the last second of claims and receipts is lost`
  return warning(check, message, 'Set appendfsync to always.')
}

function failOver(servers: readonly Server[]): Finding {
  const check = 'fail-over'
  const replicated = servers.some(({ info }) => Number(info.get('connected_slaves') ?? 0) > 0)
  const lost = 'what the replica had not received is lost: messages of that moment may be handled again'
  if (!replicated) return ok(check, `there is no replica; should one be promoted, ${lost}`)
  const waits = servers.every(({ minReplicas }) => (minReplicas ?? 0) > 0)
  if (waits) return ok(check, `writes stop without a replica in touch; still, when one is promoted, ${lost}`)
  return warning(
    check,
    `replicas are not waited for: when one is promoted, ${lost}`,
    'Set min-replicas-to-write, use providers that honour keys, and keep money on a SQL store.',
  )
}

function memory(servers: readonly Server[]): Finding {
  const shares = servers.map(({ info }) => {
    const most = Number(info.get('maxmemory') ?? 0)
    return most === 0 ? 0 : Number(info.get('used_memory') ?? 0) / most
  })
  const share = Math.max(...shares)
  if (share < FULL) return ok('memory', share === 0 ? 'there is no limit' : `${Math.round(share * 100)} % used`)
  const message = `${Math.round(share * 100)} % of maxmemory is used; when it is full, no message is taken`
  return warning('memory', message, 'Raise maxmemory, or shorten retentionMs.')
}

const FULL = 0.9

function ok(check: string, message: string): Finding {
  return { check, level: 'ok', message, advice: '' }
}

function error(check: string, message: string, advice: string): Finding {
  return { check, level: 'error', message, advice }
}

function warning(check: string, message: string, advice: string): Finding {
  return { check, level: 'warning', message, advice }
}
