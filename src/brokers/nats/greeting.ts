import { connect } from 'node:net'

/**
 * Those servers that say something, or refuse to. One that accepts a connection and stays silent would keep a socket of the
 * client's for ever: the client gives up waiting, and does not close it.
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
    // The server speaks first. What goes wrong in another way is better told by the client.
    socket.once('data', () => end(false))
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}
