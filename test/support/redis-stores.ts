import { randomUUID } from 'node:crypto'
import type { IoredisClient } from 'hapax/redis'

export function freshPrefix(): string {
  return `test-${randomUUID()}:`
}

/** A client on which every command is executed but loses its reply the first time. */
export function losingAnswers(client: IoredisClient): IoredisClient {
  const lost = new Set<string>()
  return {
    call: async (command, ...words) => {
      const answer = await client.call(command, ...words)
      const what = JSON.stringify([command, ...words])
      if (lost.delete(what)) return answer
      lost.add(what)
      throw new Error('Connection is closed.')
    },
  }
}
