import { galera, rsync } from '../../../scripts/services/galera.ts'
import { type PrivateServer, privateServer } from '../private-server.ts'
import type { Host } from './network.ts'

/** Why there is none here, or undefined. */
export function noGalera(): string | undefined {
  const missing = [galera, rsync].find((each) => each.find() === undefined)
  return missing && `${missing.title} is not installed here`
}

/** Members that are silent for two seconds are suspected, and after four they are left out: the defaults are 5 and 15. */
const PATIENCE = [
  'evs.keepalive_period=PT0.5S',
  'evs.suspect_timeout=PT2S',
  'evs.inactive_timeout=PT4S',
  'evs.inactive_check_period=PT0.5S',
]

/** A cluster with a node on each host. The first one founds it; to be killed and started again is for the others. */
export async function openGalera(
  hosts: readonly Host[],
): Promise<AsyncDisposable & { nodes: readonly PrivateServer[] }> {
  await using stack = new AsyncDisposableStack()
  const address = `gcomm://${hosts.map((host) => host.address).join(',')}`
  const nodes: PrivateServer[] = []
  for (const host of hosts) {
    const founds = nodes.length === 0
    const settings = {
      'wsrep-on': 'ON',
      'wsrep-provider': galera.find()?.from ?? '',
      'wsrep-cluster-address': address,
      'wsrep-cluster-name': 'shop',
      'wsrep-node-address': host.address,
      'wsrep-sst-method': 'rsync',
      'wsrep-provider-options': [...PATIENCE, 'gcache.size=32M'].join(';'),
      'binlog-format': 'ROW',
      'innodb-autoinc-lock-mode': '2',
    }
    const args = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
    const server = await privateServer('mysql', {
      host,
      args: founds ? [...args, '--wsrep-new-cluster'] : args,
      // The others get everything from it.
      ...(!founds && { files: { 'init.sql': '' } }),
    })
    nodes.push(stack.use(server))
  }
  const all = stack.move()
  return { nodes, [Symbol.asyncDispose]: () => all.disposeAsync() }
}
