import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { keep, newDirectory, release } from '../../../scripts/services/instance.ts'
import { findPrograms } from '../../../scripts/services/programs.ts'

/** A network namespace with an address of its own: to the servers in it, a machine. */
export interface Host {
  readonly address: string
  readonly namespace: string
  /** Cuts it off from the other hosts and, unless told otherwise, from the tests: what is sent is lost, and nobody is told. */
  isolate(from?: 'everybody' | 'other hosts'): void
  /** Connects it again. */
  heal(): void
}

/** Hosts that reach each other and the tests, and nothing else. */
export interface Network extends AsyncDisposable {
  readonly hosts: readonly Host[]
}

/** Why there is none here, or undefined. */
export function noNetwork(): string | undefined {
  if (process.getuid?.() !== 0) return 'network namespaces are for root only'
  if (findPrograms(['ip', 'setpriv'], []) === undefined) return 'iproute2 and util-linux are not installed here'
  return obstacleHere()
}

/** Opens a network with so many hosts. It ends with this process, however that ends, and so does what runs in it. */
export async function openNetwork(count: number): Promise<Network> {
  const [name, subnet] = [freeName(), freeSubnet()]
  const namespaces = hostNames(name, count)
  const keeper = keep({
    directory: newDirectory({ name: 'network' }),
    user: undefined,
    launch: { prepare: [], cleanup: removals(name, namespaces) },
  })
  const dispose = (): Promise<void> => release(keeper)
  try {
    return { hosts: openHosts(name, subnet, namespaces), [Symbol.asyncDispose]: dispose }
  } catch (error) {
    await dispose()
    throw error
  }
}

function freeName(): string {
  return `hx${randomBytes(3).toString('hex')}`
}

function hostNames(name: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index + 1}`)
}

/** Makes a bridge of this name, and a host in each namespace. */
function openHosts(name: string, subnet: string, namespaces: readonly string[]): readonly Host[] {
  ip(`link add name ${name} type bridge`)
  ip(`address add ${subnet}.1/24 dev ${name}`)
  ip(`link set ${name} up`)
  const nowhere = `${subnet}.254`
  const hosts = namespaces.map((each, index) => new NamespaceHost(each, `${subnet}.${index + 2}`, name, nowhere))
  for (const host of hosts) host.open(hosts.filter((each) => each !== host))
  return hosts
}

class NamespaceHost implements Host {
  readonly address: string
  readonly namespace: string
  readonly #bridge: string
  /** An address that nobody has. */
  readonly #nowhere: string
  #others: readonly NamespaceHost[] = []
  #isolated: 'everybody' | 'other hosts' | undefined

  constructor(namespace: string, address: string, bridge: string, nowhere: string) {
    this.namespace = namespace
    this.address = address
    this.#bridge = bridge
    this.#nowhere = nowhere
  }

  open(others: readonly NamespaceHost[]): void {
    this.#others = others
    ip(`netns add ${this.namespace}`)
    // Its other end is named after the namespace.
    ip(`link add ${this.namespace} type veth peer name eth0 netns ${this.namespace}`)
    ip(`link set ${this.namespace} master ${this.#bridge} up`)
    this.#inside(`address add ${this.address}/24 dev eth0`)
    this.#inside('link set eth0 up')
    this.#inside('link set lo up')
  }

  isolate(from: 'everybody' | 'other hosts' = 'everybody'): void {
    this.heal()
    if (from === 'everybody') ip(`link set ${this.namespace} nomaster`)
    else this.#detour('add')
    this.#isolated = from
  }

  heal(): void {
    if (this.#isolated === 'everybody') ip(`link set ${this.namespace} master ${this.#bridge}`)
    if (this.#isolated === 'other hosts') this.#detour('delete')
    this.#isolated = undefined
  }

  /** What it sends to the others goes nowhere, and what they send to it. */
  #detour(change: 'add' | 'delete'): void {
    for (const other of this.#others) {
      this.#inside(`route ${change} ${other.address}/32 via ${this.#nowhere}`)
      other.#inside(`route ${change} ${this.address}/32 via ${this.#nowhere}`)
    }
  }

  #inside(command: string): void {
    ip(`-netns ${this.namespace} ${command}`)
  }
}

function removals(name: string, namespaces: readonly string[]): [string, ...string[]][] {
  return [...namespaces.flatMap(removal), ['ip', 'link', 'delete', name]]
}

/** Whatever still runs in a namespace would keep it alive. */
function removal(namespace: string): [string, ...string[]][] {
  return [
    ['sh', '-c', `ip netns pids ${namespace} | xargs --no-run-if-empty kill -KILL`],
    ['ip', 'netns', 'delete', namespace],
  ]
}

function ip(command: string): string {
  return execFileSync('ip', command.split(' '), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

/** Its first three numbers. */
function freeSubnet(): string {
  // It complains of namespaces that others remove at this moment, and lists the rest.
  const { stdout: taken } = spawnSync('ip', ['-brief', 'address'], { encoding: 'utf8' })
  for (;;) {
    const subnet = `10.${randomInt(200, 250)}.${randomInt(256)}`
    if (!taken.includes(` ${subnet}.`)) return subnet
  }
}

/** Whether packets come from one host to the other: then a port that nobody listens on is refused at once. */
export function reachesPeer(from: Host, to: Host): boolean {
  const connect = ['timeout', '2', 'bash', '-c', `: < /dev/tcp/${to.address}/1`]
  const { stderr } = spawnSync('ip', ['netns', 'exec', from.namespace, ...connect], { encoding: 'utf8' })
  return stderr.includes('refused')
}

let obstacle: { readonly is: string | undefined } | undefined

/** What is in the way of a network, found by making one. */
function obstacleHere(): string | undefined {
  obstacle ??= { is: tried() }
  return obstacle.is
}

function tried(): string | undefined {
  const [name, subnet] = [freeName(), freeSubnet()]
  const namespaces = hostNames(name, 2)
  try {
    const [a, b] = openHosts(name, subnet, namespaces)
    if (a === undefined || b === undefined || reachesPeer(a, b)) return undefined
    return 'a firewall of this machine drops what passes through a bridge (as Docker sets it: iptables -P FORWARD DROP)'
  } catch {
    return 'this machine does not let anybody make network namespaces'
  } finally {
    for (const [command, ...words] of removals(name, namespaces)) spawnSync(command, words)
  }
}
