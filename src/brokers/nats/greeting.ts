import { connect } from 'node:net'

/**
 * The servers that greet, or refuse the connection. A server that accepts a connection and stays silent would leak a socket: the
 * client stops waiting for it and never closes it. Once one has greeted, the others have a moment to do the same: a node of a cluster that is
 * cut off must not delay the way to those that are there.
 */
export async function greeting(urls: readonly string[], timeoutMs: number): Promise<readonly string[]> {
  const enough = new AbortController()
  const greeted = (): void => void setTimeout(() => enough.abort(), MOMENT_MS).unref()
  const limit = AbortSignal.any([enough.signal, AbortSignal.timeout(timeoutMs)])
  const silent = await Promise.all(urls.map((url) => isSilent(new URL(url), limit, greeted)))
  return urls.filter((_, index) => !silent[index])
}

const MOMENT_MS = 250

function isSilent({ hostname, port }: URL, limit: AbortSignal, greeted: () => void): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 4222) })
    const late = (): void => end(true)
    const end = (silent: boolean): void => {
      limit.removeEventListener('abort', late)
      socket.destroy()
      resolve(silent)
    }
    limit.addEventListener('abort', late)
    // A NATS server speaks first. The client reports any other error better than this probe could.
    socket.once('data', () => {
      greeted()
      end(false)
    })
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}
