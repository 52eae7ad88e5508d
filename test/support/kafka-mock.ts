import { createSocket } from 'node:dgram'
import { once } from 'node:events'

/**
 * Makes the protocol mock answer the next request of a kind with a Kafka protocol error, from any client: use a
 * private server. `-195` cuts the connection instead.
 */
export async function failNextRequest(url: string, { api, error }: { api: number; error: number }): Promise<void> {
  const { hostname, port } = new URL(url)
  const socket = createSocket('udp4')
  try {
    const answer = once(socket, 'message')
    socket.send(`${api} ${error}`, Number(port), hostname)
    await answer
  } finally {
    socket.close()
  }
}
