import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../../scripts/services/port.ts'
import { RABBITMQ_COOKIE, rabbitmq, rabbitmqNode, rabbitmqSettings } from '../../../scripts/services/rabbitmq.ts'
import { type PrivateServer, privateServer } from '../private-server.ts'
import type { Host } from './network.ts'
import { type FoundNode, type LosingCluster, Nodes, patiently } from './nodes.ts'

/** Three nodes of RabbitMQ. */
export interface RabbitmqCluster extends LosingCluster, AsyncDisposable {
  readonly urls: readonly string[]
}

/** Starts three nodes, each on a host of its own. */
export function rabbitmqCluster(): Promise<RabbitmqCluster> {
  return Nodes.open(3, async (nodes) => {
    const port = await freePort()
    const [first, ...others] = nodes.hosts
    if (first === undefined) throw new Error('expected a first host')
    const start = (host: Host): Promise<PrivateServer> =>
      privateServer('rabbitmq', { host, port, files: { 'rabbitmq.conf': settings(host, port, first) } })
    // The first is there before the others join it.
    const servers = [...(await nodes.start(start, [first])), ...(await nodes.start(start, others))]
    const urls = servers.map(({ url }) => url)
    await patiently(async () => (await running(first)) === 3, 'three nodes in the cluster')
    return {
      urls,
      find: (name) => leaderOf(nodes, urls, name),
      [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose](),
    }
  })
}

/** A node that does not reach most of the others stops until it does. By default it notices after a minute. */
function settings({ address }: Host, port: number, first: Host): string {
  return `${rabbitmqSettings(port, address)}
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = ${rabbitmqNode(first.address)}
cluster_partition_handling = pause_minority
net_ticktime = 5
`
}

/**
 * Erlang 25, which Debian 12 has, sometimes lets a node that was cut off wait for the others for ever ("Global hang workaround" in its
 * log). Its operator restarts it.
 */
const HANGS_AFTER_MS = 40_000

/** The leader of the quorum queue. */
async function leaderOf(nodes: Nodes, urls: readonly string[], name: string): Promise<FoundNode> {
  let host: Host | undefined
  const look = async (): Promise<boolean> => {
    const leader = await leaderBy(nodes, name)
    host = nodes.hosts.find(({ address }) => rabbitmqNode(address) === leader)
    return host !== undefined
  }
  await patiently(look, `a leader of the queues of ${name}`)
  const { address } = host as Host
  const url = urls.find((each) => new URL(each).hostname === address) as string
  return {
    lose: async (fault) => {
      const restore = await nodes.lose(url, fault)
      return {
        restore: async () => {
          await restore()
          const whole = async (): Promise<boolean> => (await running(host as Host)) === 3
          const what = `${address} to see three nodes`
          await patiently(whole, what, HANGS_AFTER_MS).catch(async () => {
            for (const each of await hanging(nodes, urls, url)) await (await nodes.lose(each, 'kill'))()
            await patiently(whole, what)
          })
        },
      }
    },
  }
}

/** The nodes that see the fewest; if all see as many, the one that was away. It need not be the one that hangs. */
async function hanging({ hosts }: Nodes, urls: readonly string[], away: string): Promise<readonly string[]> {
  const seen = new Map(await Promise.all(hosts.map(async (host) => [host.address, await running(host)] as const)))
  const least = Math.min(...seen.values())
  const few = urls.filter((url) => seen.get(new URL(url).hostname) === least)
  return few.length === urls.length ? [away] : few
}

async function leaderBy({ hosts }: Nodes, name: string): Promise<string | undefined> {
  const named = `binary:match(element(4, amqqueue:get_name(Q)), <<"${name}">>) =/= nomatch`
  const node = 'case amqqueue:get_pid(Q) of {_, N} -> N; P -> node(P) end'
  return /'(rabbit@[^']*)'/.exec(
    await evaluated(hosts[0] as Host, `[${node} || Q <- rabbit_amqqueue:list(), ${named}].`),
  )?.[1]
}

/** How many nodes a node sees running, itself among them; 0 while it does not answer. */
async function running(host: Host): Promise<number> {
  return Number(await evaluated(host, 'length([N || N <- [node() | nodes()], rabbit:is_running(N)]).').catch(() => 0))
}

async function evaluated(host: Host, code: string): Promise<string> {
  const { program, args, env } = control(host, code)
  const { stdout } = await promisify(execFile)(program, args, { timeout: 20_000, env })
  return stdout.trim()
}

/** How a node is made to evaluate something. */
export function control({ address }: Host, code: string): { program: string; args: string[]; env: NodeJS.ProcessEnv } {
  const program = join(dirname(rabbitmq.find()?.from ?? ''), 'rabbitmqctl')
  const node = ['--longnames', '--node', rabbitmqNode(address), '--erlang-cookie', RABBITMQ_COOKIE]
  // Its node listens to no other, and needs no epmd: that would stay, on the machine of the tests.
  const env = { ...process.env, RABBITMQ_CTL_ERL_ARGS: '-start_epmd false -dist_listen false' }
  return { program, args: [...node, 'eval', code], env }
}
