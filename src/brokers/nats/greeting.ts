import { connect } from 'node:net'

/**
 * The servers that greet, or refuse the connection. A server that accepts a connection and stays silent would leak a socket: the
 * client stops waiting for it and never closes it.
 */
export async function greeting(urls: readonly string[], timeoutMs: number): Promise<readonly string[]> {
  const silent = await Promise.all(urls.map((url) => isSilent(new URL(url), timeoutMs)))
  return urls.filter((_, index) => !silent[index])
}

function isSilent({ hostname, port }: URL, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 4222) })
    const end = (silent: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(silent)
    }
    const timer = setTimeout(() => end(true), timeoutMs)
    // A NATS server speaks first. The client reports any other error better than this probe could.
    socket.once('data', () => end(false))
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}
