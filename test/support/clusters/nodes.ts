import { setTimeout as delay } from 'node:timers/promises'
import type { PrivateServer } from '../private-server.ts'
import { type Host, type Network, openNetwork } from './network.ts'

/**
 * What happens to a node. `kill`: its processes end. `cut off`: nobody reaches it. `split`: the other nodes do not reach it, and clients
 * do. `pause`: its processes stand still.
 */
export type NodeFault = 'kill' | 'cut off' | 'split' | 'pause'

/** Brings a node back. */
type Restore = () => Promise<void>

/** A node that was lost. */
interface LostNode {
  /** Resolves when another has its place; without it, nothing takes effect before that. */
  replaced?(): Promise<void>
  /** Resolves when the cluster is whole again. */
  restore(): Promise<void>
}

/** A node that can be lost. */
export interface FoundNode {
  lose(fault: NodeFault): Promise<LostNode>
}

/** A cluster that can lose a node. */
export interface LosingCluster {
  /** The node that has the messages of that name at the moment. */
  find(name: string): Promise<FoundNode>
}

/** The servers of a cluster, some on each host. */
export class Nodes implements AsyncDisposable {
  readonly hosts: readonly Host[]
  readonly #network: Network
  readonly #servers: { readonly host: Host; readonly server: PrivateServer }[] = []

  private constructor(network: Network) {
    this.#network = network
    this.hosts = network.hosts
  }

  /** Opens a network with so many hosts, and disposes of it if `start` fails. */
  static async open<Cluster>(count: number, start: (nodes: Nodes) => Promise<Cluster>): Promise<Cluster> {
    const nodes = new Nodes(await openNetwork(count))
    try {
      return await start(nodes)
    } catch (error) {
      await nodes[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Starts a server on each of the hosts at once. */
  async start(
    make: (host: Host, index: number) => Promise<PrivateServer>,
    hosts = this.hosts,
  ): Promise<PrivateServer[]> {
    const started = await Promise.allSettled(
      hosts.map(async (host) => {
        const server = await make(host, this.hosts.indexOf(host))
        this.#servers.push({ host, server })
        return server
      }),
    )
    const failed = started.find((each) => each.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    return started.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  }

  /** Does it to the host of a URL, with all that runs there. */
  async lose(url: string, fault: NodeFault): Promise<Restore> {
    const { hostname } = new URL(url)
    const host = this.hosts.find(({ address }) => address === hostname)
    if (host === undefined) throw new Error(`expected a host at ${hostname}`)
    const servers = this.#servers.filter((each) => each.host === host).map(({ server }) => server)
    const all = (work: (server: PrivateServer) => Promise<void>): Promise<unknown> => Promise.all(servers.map(work))
    if (fault === 'kill') {
      await all((server) => server.kill())
      return async () => void (await all((server) => server.start()))
    }
    if (fault === 'pause') {
      await all((server) => server.pause())
      return async () => void (await all((server) => server.resume()))
    }
    host.isolate(fault === 'split' ? 'other hosts' : 'everybody')
    return async () => host.heal()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#servers.map(({ server }) => server[Symbol.asyncDispose]()))
    await this.#network[Symbol.asyncDispose]()
  }
}

/** Longer than `until`: on a busy machine, servers that come back take their time. */
const PATIENCE_MS = 180_000

/** Waits until a cluster is so. A question that fails is asked again. */
export async function patiently(holds: () => Promise<boolean>, what: string, ms = PATIENCE_MS): Promise<void> {
  let failure: unknown
  for (const deadline = performance.now() + ms; performance.now() < deadline; await delay(50)) {
    try {
      if (await holds()) return
      failure = undefined
    } catch (error) {
      failure = error
    }
  }
  throw new Error(`not in time: ${what}`, { cause: failure })
}
