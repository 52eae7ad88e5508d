import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** A port that a server may listen on, now or later, also after it was away. */
export interface ClaimedPort extends Disposable {
  readonly port: number
}

/** Nobody sends datagrams there. Where there is no such address (macOS), nothing can be claimed. */
const ELSEWHERE = '127.0.0.2'

/**
 * A free port below the range that outgoing connections take theirs from. Its number is claimed by a socket for datagrams, so that nobody else
 * who draws it here gets it, in whatever process, until this one has ended or disposes of it.
 */
export async function claimPort(): Promise<ClaimedPort> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const port = randomInt(20_000, 32_000)
    const claim = await claimed(port)
    if (claim === 'taken') continue
    const obstacle = await obstacleAt(port)
    if (obstacle === undefined) return { port, [Symbol.dispose]: claim }
    claim()
    if (!TAKEN.includes(obstacle.code)) throw obstacle
  }
  throw new Error('expected a free port between 20000 and 32000, got none')
}

const MOST_TRIES = 1_000
/** EACCES: ports that Windows keeps for itself. */
const TAKEN: readonly unknown[] = ['EADDRINUSE', 'EACCES']

/** Ends the claim. */
async function claimed(port: number): Promise<(() => void) | 'taken'> {
  const socket = createSocket('udp4').unref()
  try {
    socket.bind({ port, address: ELSEWHERE, exclusive: true })
    await once(socket, 'listening')
    return () => socket.close()
  } catch (error) {
    socket.close()
    return Object(error).code === 'EADDRINUSE' ? 'taken' : () => {}
  }
}

/** Why nobody can listen there, or undefined. */
async function obstacleAt(port: number): Promise<NodeJS.ErrnoException | undefined> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (error) {
    return error as NodeJS.ErrnoException
  }
  server.close()
  await once(server, 'close')
  return undefined
}
