import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { until } from '../../../src/testing/wait.ts'
import { noNetwork, openNetwork, reachesPeer } from '../../support/clusters/network.ts'
import { noPrivateServer, privateServer } from '../../support/private-server.ts'

const missing = noNetwork() ?? noPrivateServer('redis')

describe.skipIf(missing)('hosts of a cluster', () => {
  test('a host is cut off from everybody or from its peers, and healed', async () => {
    await using network = await openNetwork(2)
    const [a, b] = network.hosts
    if (a === undefined || b === undefined) throw new Error('expected two hosts')
    await using server = await privateServer('redis', { host: a })
    const fromHere = () => answers(server.url)
    const fromPeer = async () => reaches(b.namespace, server.url)
    await until(fromHere, 'the test to reach it')
    await until(fromPeer, 'the peer to reach it')
    a.isolate()
    expect([await fromHere(), await fromPeer()]).toEqual([false, false])
    a.isolate('other hosts')
    await until(fromHere, 'the test to reach it')
    expect(await fromPeer()).toBe(false)
    a.heal()
    await until(fromPeer, 'the peer to reach it')
    await until(fromHere, 'the test to reach it')
  })

  test('packets that are dropped between hosts are noticed', async () => {
    await using network = await openNetwork(2)
    const [a, b] = network.hosts
    if (a === undefined || b === undefined) throw new Error('expected two hosts')
    await until(() => reachesPeer(a, b), 'packets to pass')
    b.isolate('other hosts')
    expect(reachesPeer(a, b)).toBe(false)
  })

  test('a process that is killed leaves no network behind', async () => {
    const child = fork(fileURLToPath(new URL('./network-child.ts', import.meta.url)))
    const [namespace] = (await once(child, 'message')) as [string]
    const exists = async (): Promise<boolean> => namespaces().includes(namespace)
    expect(await exists()).toBe(true)
    child.kill('SIGKILL')
    await until(async () => !(await exists()), 'the namespace to go')
  })
})

function namespaces(): string {
  return execFileSync('ip', ['netns', 'list'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

async function answers(url: string): Promise<boolean> {
  const client = new Redis(url, { lazyConnect: true, connectTimeout: 1_000, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.ping()) === 'PONG'
  } catch {
    return false
  } finally {
    client.disconnect()
  }
}

function reaches(namespace: string, url: string): boolean {
  const { hostname, port } = new URL(url)
  const connect = ['timeout', '1', 'bash', '-c', `: < /dev/tcp/${hostname}/${port}`]
  try {
    execFileSync('ip', ['netns', 'exec', namespace, ...connect], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
